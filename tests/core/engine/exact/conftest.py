"""Tests of this folder need arithmetic that does not depend on the width of a pass: MLX's stock BLAS.

`test_lossless.py` beside this folder runs them in a process of their own with MIRROR_SD_BLAS=stock.
"""

import os

import pytest

if os.environ.get("MIRROR_SD_BLAS") != "stock":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def target():
    """A tiny random target of several layers."""
    from helpers.tiny import tiny_target

    return tiny_target()


@pytest.fixture(scope="module")
def drafter(target):
    """A random draft for it."""
    from helpers.tiny import tiny_drafter

    return tiny_drafter(target)
