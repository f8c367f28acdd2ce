"""The transaction: after verify and commit(k) the caches are what k single steps leave."""

from __future__ import annotations

import mlx.core as mx
import pytest
from mlx_lm.models.cache import CacheList, ConcatenateKVCache, KVCache, QuantizedKVCache, RotatingKVCache

from core.engine.rollback import Transaction
from core.errors import UnsupportedCache
from helpers.tiny import tiny_target

PROMPT = [4, 9, 33, 12, 70]
BLOCK = [8, 61, 2, 45, 30]


@pytest.fixture(scope="module")
def target():
    return tiny_target(head_dim=32)


def plain_caches(target):
    return [KVCache() for _ in target.layers]


def quantised_caches(target):
    return [QuantizedKVCache(group_size=32, bits=8) for _ in target.layers]


def advance(target, caches, tokens):
    logits = target.forward(mx.array(tokens), caches).logits
    mx.eval(logits)
    return logits


@pytest.mark.parametrize("make_caches", [plain_caches, quantised_caches])
@pytest.mark.parametrize("kept", range(len(BLOCK) + 1))
def test_commit_of_k_rows_equals_k_single_steps(target, make_caches, kept):
    transaction = Transaction(make_caches(target))
    for tokens, rows in ((PROMPT, len(PROMPT)), (BLOCK, kept)):
        with transaction.begin(len(tokens)):
            advance(target, transaction.caches, tokens)
        transaction.commit(rows)

    single = make_caches(target)
    advance(target, single, PROMPT)
    for token in BLOCK[:kept]:
        advance(target, single, [token])

    assert transaction.length == len(PROMPT) + kept
    assert {cache.offset for cache in transaction.caches} == {transaction.length}
    after = [advance(target, caches, [77]) for caches in (transaction.caches, single)]
    # 8-bit keys turn a rounding difference of a width into a step of the quantisation now and then.
    assert mx.allclose(*after, atol=1e-4 if make_caches is plain_caches else 2e-2)


def test_abort_forgets_every_queued_pass(target):
    transaction = Transaction(plain_caches(target))
    with transaction.begin(len(PROMPT)):
        advance(target, transaction.caches, PROMPT)
    transaction.commit(len(PROMPT))
    for token in BLOCK:
        with transaction.begin(1):
            advance(target, transaction.caches, [token])
    transaction.abort()
    assert {cache.offset for cache in transaction.caches} == {transaction.length} == {len(PROMPT)}


def test_passes_are_committed_in_their_order(target):
    transaction = Transaction(plain_caches(target))
    for rows in (3, 2):
        with transaction.begin(rows):
            advance(target, transaction.caches, BLOCK[:rows])
    transaction.commit(3)
    transaction.commit(1)
    assert {cache.offset for cache in transaction.caches} == {transaction.length} == {4}


def test_rows_under_a_later_pass_cannot_be_dropped(target):
    transaction = Transaction(plain_caches(target))
    for rows in (3, 1):
        with transaction.begin(rows):
            advance(target, transaction.caches, BLOCK[:rows])
    with pytest.raises(ValueError, match="later pass"):
        transaction.commit(2)


@pytest.mark.parametrize("rows", [-1, 4])
def test_more_rows_than_the_pass_has_cannot_be_committed(target, rows):
    transaction = Transaction(plain_caches(target))
    with transaction.begin(3):
        advance(target, transaction.caches, BLOCK[:3])
    with pytest.raises(ValueError, match="cannot commit"):
        transaction.commit(rows)


class OwnCache(KVCache):
    """A class that may store and trim in its own way."""


@pytest.mark.parametrize(
    "cache",
    [OwnCache(), RotatingKVCache(max_size=8, keep=4), ConcatenateKVCache()],
    ids=lambda cache: type(cache).__name__,
)
def test_a_cache_that_cannot_be_rolled_back_is_refused_by_name(cache):
    for refused in (cache, CacheList(KVCache(), cache)):
        with pytest.raises(UnsupportedCache, match=type(cache).__name__):
            Transaction([KVCache(), refused])
