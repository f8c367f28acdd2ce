"""Tests that need a process of their own, since what they need is fixed when a process starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def assert_they_pass(tests: Sequence[Path], *options: str, **environment: str) -> None:
    """Run these tests with pytest in a process with more environment; fails with its output."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, *map(str, tests)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
