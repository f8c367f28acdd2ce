"""Screens of 150 to 300 %: looks, formulas, code and figures are tested on them too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TESTED = ("test_looks.py", "test_formulas.py", "test_code.py", "stats/test_panel.py", "stats/test_timeline.py")


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("QT_QPA_PLATFORM") == "xcb", reason="it needs no display, and has run without one")
@pytest.mark.parametrize("factor", ["1.5", "2", "3"])
def test_the_window_is_whole_on_screens_of_other_densities(factor: str) -> None:
    """The factor of a process is fixed when it starts."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "QT_SCALE_FACTOR": factor, "PYTEST_ADDOPTS": ""}
    files = [str(HERE / name) for name in TESTED]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *files],
        env=environment,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
