"""Parts for tests of the engine. `core.engine` comes first: it takes the BLAS before anything imports mlx."""

import pytest

import core.engine  # noqa: F401


@pytest.fixture(scope="session")
def demo():
    """The demo pair, loaded once for all tests of the engine. Tests leave its session as they like."""
    from core.engine.loader import load_pair_now
    from core.pairs import demo_pair

    return load_pair_now(demo_pair())


@pytest.fixture(scope="session")
def demo_tokenizer():
    """The demo target's tokenizer alone: reads the header only."""
    from core.engine.gguf_header import read_gguf
    from core.engine.tokenizer import Tokenizer
    from core.pairs import demo_pair

    return Tokenizer.from_gguf(read_gguf(demo_pair().target))
