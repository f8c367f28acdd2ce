"""No test touches the user's files: everything Mirror SD keeps goes below one temporary folder."""

import atexit
import os
import shutil
import tempfile

import pytest

# Set when pytest starts, before anything imports `core.engine`, which keeps the verdict on the BLAS.
_home = tempfile.mkdtemp(prefix="mirror-sd-tests-")
os.environ["MIRROR_SD_HOME"] = _home
atexit.register(shutil.rmtree, _home, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that are given the longest time come first: at the end, one process would be left alone with them."""
    items.sort(key=_given_s, reverse=True)


def _given_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker and marker.args[0] >= 1000 else 0.0
