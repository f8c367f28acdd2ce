"""Screens of 150 to 300 %: looks, formulas, code and figures are tested on them too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers.child_tests import assert_they_pass

HERE = Path(__file__).parent
TESTED = ("test_looks.py", "test_formulas.py", "test_code.py", "stats/test_panel.py", "stats/test_timeline.py")


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("QT_QPA_PLATFORM") == "xcb", reason="it needs no display, and has run without one")
@pytest.mark.parametrize("factor", ["1.5", "2", "3"])
def test_the_window_is_whole_on_screens_of_other_densities(factor: str) -> None:
    """The factor of a process is fixed when it starts."""
    files = [HERE / name for name in TESTED]
    assert_they_pass(files, QT_QPA_PLATFORM="offscreen", QT_SCALE_FACTOR=factor, PYTEST_ADDOPTS="")
