"""Parts for tests of core. `core.engine` comes first: it takes the BLAS before anything imports mlx."""

import pytest

import core.engine  # noqa: F401  isort: skip
from helpers.folders import write_tiny_pair


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory):
    """A pair that loads at once and answers thousands of tokens a second with nonsense."""
    return write_tiny_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def demo():
    """The demo pair, loaded once for all tests. Tests leave its session as they like."""
    from core.engine.loader import load_pair_now
    from core.pairs import demo_pair

    return load_pair_now(demo_pair())


@pytest.fixture(scope="session")
def demo_tokenizer():
    """The demo target's tokenizer alone: reads the header only."""
    from core.engine.tokenizer import Tokenizer
    from core.formats.gguf_header import read_gguf
    from core.pairs import demo_pair

    return Tokenizer.from_gguf(read_gguf(demo_pair().target))
