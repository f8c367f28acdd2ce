"""Every kind of cache, in models that mlx-lm builds: verify and commit(k) leave what k single steps leave.

The single steps run on mlx-lm's own caches.
"""

from __future__ import annotations

from functools import cache

import mlx.core as mx
import pytest
from mlx import nn
from mlx_lm.models.cache import ArraysCache, CacheList

from core.engine.rollback import Transaction
from core.engine.target import Target
from core.errors import UnsupportedCache
from helpers.families import (
    FAMILIES,
    KINDS,
    QUANTISED,
    RECURRENT,
    WINDOW,
    WINDOWED,
    family_target,
    quantised_target,
)

BLOCK = [8, 61, 2, 45, 30, 19]
TAIL = [77, 3, 51, 90, 14, 66, 21, 9, 35]
"""Read after the block: longer than a window."""
TOLERANCE = 2e-4
"""Of logits of about 3; widths and the order of a window's rows change the last bits."""


def text(length: int) -> list[int]:
    return [(17 * i + 5) % 90 for i in range(length)]


@cache
def target_of(family: str) -> Target:
    return family_target(family)


def step(target, caches, tokens):
    logits = target.forward(mx.array(tokens), caches).logits
    mx.eval(logits)
    return logits


def after(target, caches):
    """Logits of what follows: a token by itself, several at once, and one more."""
    return mx.concatenate([step(target, caches, tokens) for tokens in (TAIL[:1], TAIL[1:], [4])])


def read(target, transaction, tokens, rows, whole=False):
    """A pass over `tokens` of which `rows` rows are kept."""
    with transaction.begin(len(tokens), whole):
        logits = step(target, transaction.caches, tokens)
    transaction.commit(rows)
    return logits


def begun(target, prompt):
    transaction = Transaction(target.make_cache(), target.layers)
    read(target, transaction, prompt, len(prompt), whole=True)
    return transaction


@cache
def single_steps(family: str, prompt_length: int, kept: int) -> mx.array:
    target = target_of(family)
    caches = target.make_cache()
    step(target, caches, text(prompt_length))
    for token in BLOCK[:kept]:
        step(target, caches, [token])
    return after(target, caches)


def states(caches) -> list[mx.array]:
    """The arrays of recurrent caches."""
    parts = [part for cache in caches for part in (cache.caches if isinstance(cache, CacheList) else [cache])]
    return [array for part in parts if isinstance(part, ArraysCache) for array in part.cache]


@pytest.mark.parametrize(
    ("family", "prompt_length"),
    [(family, 5) for family in FAMILIES]
    + [(family, length) for family in WINDOWED for length in (1, WINDOW - 3, WINDOW, 2 * WINDOW + 5)],
)
def test_commit_of_k_rows_equals_k_single_steps(family, prompt_length):
    target = target_of(family)
    for kept in range(len(BLOCK) + 1):
        transaction = begun(target, text(prompt_length))
        read(target, transaction, BLOCK, kept)
        assert transaction.length == prompt_length + kept
        logits = after(target, transaction.caches)
        assert mx.allclose(logits, single_steps(family, prompt_length, kept), atol=TOLERANCE), f"k = {kept}"


@pytest.mark.parametrize(("family", "quantisation"), QUANTISED, ids=str)
def test_commit_of_k_rows_equals_k_single_steps_with_quantised_weights(family, quantisation):
    target = quantised_target(family, **quantisation)
    for kept in range(len(BLOCK) + 1):
        transaction = begun(target, text(WINDOW))
        read(target, transaction, BLOCK, kept)
        caches = target.make_cache()
        step(target, caches, text(WINDOW))
        for token in BLOCK[:kept]:
            step(target, caches, [token])
        assert mx.allclose(after(target, transaction.caches), after(target, caches), atol=TOLERANCE), f"k = {kept}"


@pytest.mark.parametrize("family", RECURRENT)
def test_recurrent_states_are_those_of_k_single_steps(family):
    target = target_of(family)
    for kept in range(len(BLOCK) + 1):
        transaction = begun(target, text(5))
        read(target, transaction, BLOCK, kept)
        caches = target.make_cache()
        step(target, caches, text(5))
        for token in BLOCK[:kept]:
            step(target, caches, [token])
        ours, theirs = states(transaction.caches), states(caches)
        assert len(ours) == len(theirs) > 0
        for one, other in zip(ours, theirs, strict=True):
            assert mx.allclose(one, other, rtol=1e-4, atol=1e-4), f"k = {kept}"


@pytest.mark.parametrize("family", KINDS)
def test_pass_after_pass_stays_what_single_steps_give(family, monkeypatch):
    monkeypatch.setattr("core.engine.sliding_cache.SPARE_ROWS", 3)
    monkeypatch.setattr("core.engine.sliding_cache._GROWTH_ROWS", 2)  # buffers are moved all the time
    target, prompt = target_of(family), text(3)
    transaction, kept = begun(target, prompt), list(prompt)
    for index, rows in enumerate([0, 3, 6, 1, 5, 2, 4, 6, 0, 1]):
        block = [(token + 7 * index) % 90 for token in BLOCK]
        read(target, transaction, block, rows)
        kept += block[:rows]
    caches = target.make_cache()
    for token in kept:
        step(target, caches, [token])
    logits = after(target, transaction.caches)
    assert mx.allclose(logits, after(target, caches), atol=TOLERANCE)


@pytest.mark.parametrize("family", KINDS)
def test_abort_of_queued_passes_leaves_what_was_committed(family):
    target = target_of(family)
    transaction = begun(target, text(WINDOW))
    for tokens in (BLOCK, [4], [5]):
        with transaction.begin(len(tokens)):
            step(target, transaction.caches, tokens)
    transaction.abort()
    logits = after(target, transaction.caches)
    assert mx.allclose(logits, single_steps(family, WINDOW, 0), atol=TOLERANCE)


@pytest.mark.parametrize("family", KINDS)
def test_one_row_passes_may_be_queued_two_deep(family):
    target = target_of(family)
    transaction = begun(target, text(WINDOW))
    for token in BLOCK[:2]:
        with transaction.begin(1):
            step(target, transaction.caches, [token])
    transaction.commit(1)
    transaction.abort()
    logits = after(target, transaction.caches)
    assert mx.allclose(logits, single_steps(family, WINDOW, 1), atol=TOLERANCE)


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("length", [0, 4, 9, WINDOW + 4])
def test_a_cut_goes_to_the_length_or_to_an_earlier_sound_one(family, length, monkeypatch):
    monkeypatch.setattr("core.engine.sliding_cache.SPARE_ROWS", 2)
    monkeypatch.setattr("core.engine.sliding_cache._GROWTH_ROWS", 1)
    target, prompt = target_of(family), text(2 * WINDOW)
    transaction = begun(target, prompt[:9])
    transaction.mark()
    for token in prompt[9:]:
        read(target, transaction, [token], 1)
    kept = transaction.cut(length)
    assert kept == transaction.length <= length
    assert kept >= (9 if length >= 9 else 0)
    if not transaction.needs_marks:
        assert kept == length
    caches = target.make_cache()
    if kept:
        step(target, caches, prompt[:kept])
    assert mx.allclose(after(target, transaction.caches), after(target, caches), atol=TOLERANCE)


@pytest.mark.parametrize("family", [*RECURRENT, *WINDOWED])
def test_the_same_mark_serves_again_and_again(family, monkeypatch):
    monkeypatch.setattr("core.engine.sliding_cache.SPARE_ROWS", 0)
    monkeypatch.setattr("core.engine.sliding_cache._GROWTH_ROWS", 3)
    target, prompt = target_of(family), text(WINDOW)
    transaction = begun(target, prompt)
    transaction.mark()
    for shift in range(3):
        for token in TAIL * 2:
            read(target, transaction, [(token + shift) % 90], 1)
        assert transaction.cut(WINDOW) == WINDOW
    logits = after(target, transaction.caches)
    assert mx.allclose(logits, single_steps(family, WINDOW, 0), atol=TOLERANCE)


@pytest.mark.parametrize("family", ["qwen3_5", "mamba2", "lfm2", "falcon_h1"])
def test_linear_layers_do_not_run_again_for_the_rows_that_are_kept(family):
    target = family_target(family)
    transaction = begun(target, text(5))
    with transaction.begin(len(BLOCK)):
        step(target, transaction.caches, BLOCK)
    for module in target.model.modules():
        if isinstance(module, nn.Linear):
            module.weight = module.weight * float("nan")
    transaction.commit(3)
    assert all(mx.isfinite(array).all() for array in states(transaction.caches))


@pytest.mark.parametrize("family", RECURRENT)
def test_nothing_of_the_watching_is_left_on_the_model(family):
    target = family_target(family)
    modules = [module for layer in target.layers for module in layer.modules()]
    classes = [type(module) for module in modules]
    read(target, begun(target, text(3)), BLOCK, 2)
    assert [type(module) for module in modules] == classes


@pytest.mark.parametrize("family", RECURRENT)
def test_a_whole_pass_of_a_recurrent_model_cannot_be_kept_in_part(family):
    target = target_of(family)
    transaction = Transaction(target.make_cache(), target.layers)
    with pytest.raises(ValueError, match="begun whole"):
        read(target, transaction, BLOCK, 2, whole=True)


class Sum(nn.Module):
    """Its state is the sum of the rows so far."""

    def __call__(self, rows, cache):
        before = 0 if cache[0] is None else cache[0]
        cache[0] = before + rows.sum(axis=1)
        return rows


class Wrapper(nn.Module):
    """Hands the cache on."""

    def __init__(self):
        super().__init__()
        self.inner = Sum()

    def __call__(self, rows, cache):
        return self.inner(rows, cache)


def test_a_module_that_hands_its_cache_on_does_not_advance_it_twice():
    layer = nn.Module()
    layer.mixer = Wrapper()
    transaction = Transaction([ArraysCache(1)], [layer])
    with transaction.begin(4):
        layer.mixer(mx.array([[1.0, 2.0, 3.0, 4.0]])[..., None], transaction.caches[0])
    transaction.commit(3)
    assert transaction.caches[0][0].tolist() == [[6.0]]


def test_a_recurrent_state_that_no_layer_advances_is_refused_and_undone():
    target = target_of("mamba2")
    transaction = Transaction(target.make_cache(), target.layers[1:])
    with pytest.raises(UnsupportedCache, match="recurrent state"), transaction.begin(len(BLOCK)):
        step(target, transaction.caches, BLOCK)
    transaction.abort()
    assert transaction.length == 0
    assert all(array is None for array in states(transaction.caches))
