"""Speculative decoding gives plain decoding's text: exactly on bit-stable arithmetic, and on the demo pair."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXACT_TESTS = Path(__file__).parent / "exact"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("marked", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_exact_on_bit_stable_arithmetic(marked):
    """The BLAS of a process cannot be changed, so the tests of `exact/` run in one with MLX's stock BLAS."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", marked, str(EXACT_TESTS)],
        env={**os.environ, "MIRROR_SD_BLAS": "stock"},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
