"""Parts for tests of the engine."""

import pytest


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny target with one draft in MLX and as programs."""
    from helpers.programs import TinyPrograms  # the BLAS comes before anything that imports mlx

    made = TinyPrograms(tmp_path_factory.mktemp("programs") / "draft")
    yield made
    made.thread.close()
