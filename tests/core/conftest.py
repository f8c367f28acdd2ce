"""Parts for tests of core. `core.engine` comes first: it takes the BLAS before anything imports mlx."""

import pytest

import core.engine  # noqa: F401  isort: skip
from helpers.folders import write_tiny_pair


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory):
    """A pair that loads at once and answers thousands of tokens a second with nonsense."""
    return write_tiny_pair(tmp_path_factory.mktemp("pair"))
