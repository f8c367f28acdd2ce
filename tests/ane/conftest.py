"""Parts for tests of ane. `core.engine` comes first: it takes the BLAS before anything imports mlx."""

import pytest

import core.engine  # noqa: F401  isort: skip


@pytest.fixture(scope="session")
def demo_target():
    """The demo target with the demo draft's taps on, its tokenizer, and the draft in float32."""
    from pathlib import Path

    import mlx.core as mx

    from core.engine.draft_weights import load_draft
    from core.engine.loader import load_target
    from core.pairs import demo_pair

    pair = demo_pair()
    target, tokenizer = load_target(Path(pair.target))
    return target, tokenizer, load_draft(Path(pair.draft), target, mx.float32)
