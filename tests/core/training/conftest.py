"""Parts for tests of training."""

import pytest

from helpers.chain import chain_target


@pytest.fixture(scope="module")
def chain():
    """A target whose next token mostly follows from the last one: a draft can learn it in seconds."""
    return chain_target()
