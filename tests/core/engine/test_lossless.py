"""Speculative decoding gives plain decoding's text: exactly on bit-stable arithmetic, and on the demo pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.child_tests import assert_they_pass

EXACT_TESTS = Path(__file__).parent / "exact"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("marked", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_exact_on_bit_stable_arithmetic(marked):
    """The BLAS of a process cannot be changed, so the tests of `exact/` run in one with MLX's stock BLAS."""
    assert_they_pass([EXACT_TESTS], "-x", "-m", marked, MIRROR_SD_BLAS="stock")
