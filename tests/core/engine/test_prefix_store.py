"""The store of beginnings: finds the longest one, holds what is shared once, and keeps to its limit."""

from __future__ import annotations

import mlx.core as mx
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine import prefix_store
from core.engine.cache_copies import EndState, join_rows, slice_rows
from core.engine.prefix_store import PrefixStore, limit_bytes

PLENTY = 1_000_000
ROW_BYTES = 4
END_BYTES = 8
TEXTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=9), min_size=1, max_size=9)


@pytest.fixture(autouse=True, scope="module")
def _short_segments():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefix_store, "SEGMENT_TOKENS", 3)
        yield


def rows(tokens):
    """A row's number tells its token, its position, and all tokens before it."""
    numbers = [hash(tuple(tokens[: end + 1])) % 10_007 for end in range(len(tokens))]
    return ((mx.array(numbers, dtype=mx.float32).reshape(1, 1, -1, 1),),)


def end_of(tokens):
    return EndState((), ((mx.array([hash(tuple(tokens)) % 10_007, len(tokens)], dtype=mx.int32),),))


def insert(store, tokens, with_end=False, spare=False):
    """Returns the positions that were asked for."""
    asked = []

    def copy(first, end):
        asked.extend(range(first, end))
        return tuple(tuple(array[..., first:end, :] for array in arrays) for arrays in rows(tokens))

    store.insert(tokens, copy, (lambda: end_of(tokens)) if with_end else None, spare)
    return asked


def check_found(found, tokens):
    if found.length:
        ((joined,),) = join_rows(found.segments)
        ((truth,),) = rows(tokens[: found.length])
        assert joined.shape == truth.shape
        assert mx.array_equal(joined, truth)
    if found.end is not None:
        assert mx.array_equal(found.end.states[0][0], end_of(tokens[: found.length]).states[0][0])


def common(one, other):
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def held(store):
    """Bytes of every array in the tree."""
    nodes = list(store._nodes())
    arrays = [array for node in nodes for part in node.rows for array in part]
    return sum(array.nbytes for array in arrays) + sum(node.end.nbytes for node in nodes if node.end)


def test_an_empty_store_knows_nothing():
    assert PrefixStore(PLENTY, needs_ends=False).find([1, 2, 3]).length == 0


def test_what_is_held_already_is_not_copied_again():
    store = PrefixStore(PLENTY, needs_ends=False)
    assert insert(store, [1, 2, 3, 4, 5]) == [0, 1, 2, 3, 4]
    assert insert(store, [1, 2, 3, 4, 5]) == []
    assert insert(store, [1, 2, 3]) == []
    assert insert(store, [1, 2, 9, 9]) == [2, 3]
    assert insert(store, [1, 2, 3, 4, 5, 6]) == [5]
    assert store.nbytes == 8 * ROW_BYTES


def test_without_room_the_first_tokens_stay_and_the_last_go():
    store = PrefixStore(6 * ROW_BYTES, needs_ends=False)
    insert(store, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert store.find([1, 2, 3, 4, 5, 6, 7, 8, 9]).length == 6


def test_what_was_used_longest_ago_makes_room():
    store = PrefixStore(6 * ROW_BYTES, needs_ends=False)
    insert(store, [1, 1, 1])
    insert(store, [2, 2, 2])
    assert store.find([1, 1, 1]).length == 3
    insert(store, [3, 3, 3])
    assert [store.find([token] * 3).length for token in (1, 2, 3)] == [3, 0, 3]


def test_a_state_that_is_larger_than_the_room_leaves_nothing_useless():
    store = PrefixStore(3 * ROW_BYTES, needs_ends=True)
    insert(store, [1, 2, 3], with_end=True)
    assert store.nbytes == held(store) == 0


def test_a_state_between_others_may_go_alone():
    store = PrefixStore(4 * ROW_BYTES + 2 * END_BYTES, needs_ends=True)
    insert(store, [1, 2], with_end=True)
    insert(store, [1, 2, 3], with_end=True)
    insert(store, [1, 2, 3, 4], with_end=True)
    assert [store.find([1, 2, 3, 4][:length]).length for length in (4, 3, 2)] == [4, 3, 0]


def test_spare_texts_take_no_ones_place_and_go_first():
    store = PrefixStore(6 * ROW_BYTES, needs_ends=False)
    insert(store, [1, 1, 1])
    insert(store, [2, 2, 2], spare=True)
    insert(store, [3, 3, 3], spare=True)
    assert [store.find([token] * 3).length for token in (1, 2, 3)] == [3, 0, 3]
    insert(store, [2, 2, 2])
    insert(store, [4, 4, 4])
    insert(store, [1, 1, 1], spare=True)
    assert [store.find([token] * 3).length for token in (1, 2, 4)] == [0, 3, 3]


def test_a_spare_text_that_was_found_is_as_good_as_any():
    store = PrefixStore(6 * ROW_BYTES, needs_ends=False)
    insert(store, [1, 1, 1], spare=True)
    insert(store, [2, 2, 2])
    assert store.find([1, 1, 1]).length == 3
    insert(store, [3, 3, 3])
    assert [store.find([token] * 3).length for token in (1, 2, 3)] == [3, 0, 3]


@given(TEXTS)
@settings(deadline=None)
def test_the_longest_common_beginning_is_found(texts):
    store, known = PrefixStore(PLENTY, needs_ends=False), []
    for text in texts:
        found = store.find(text)
        assert found.length == max((common(text, other) for other in known), default=0)
        check_found(found, text)
        asked = insert(store, text)
        assert asked == list(range(found.length, len(text)))
        known.append(text)
        assert store.nbytes == held(store) == ROW_BYTES * len({tuple(t[: n + 1]) for t in known for n in range(len(t))})


@given(TEXTS)
@settings(deadline=None)
def test_where_states_are_needed_the_longest_beginning_with_one_is_found(texts):
    store, known = PrefixStore(PLENTY, needs_ends=True), []
    for text in texts:
        found = store.find(text)
        assert found.length == max((len(other) for other in known if text[: len(other)] == other), default=0)
        assert (found.end is None) == (found.length == 0)
        check_found(found, text)
        insert(store, text, with_end=True)
        known.append(text)
        assert store.nbytes == held(store)


@given(TEXTS, st.integers(0, 60), st.booleans())
@settings(deadline=None)
def test_the_limit_holds_and_what_is_found_is_true(texts, limit_bytes, needs_ends):
    store, known = PrefixStore(limit_bytes, needs_ends), []
    for text in texts:
        found = store.find(text)
        assert found.length <= max((common(text, other) for other in known), default=0)
        check_found(found, text)
        insert(store, text, with_end=needs_ends)
        known.append(text)
        assert store.nbytes == held(store) <= limit_bytes
        leaves = [node for node in store._nodes() if not node.children]
        assert not needs_ends or all(leaf.end for leaf in leaves)


def test_what_was_found_stays_as_it_was_when_it_is_forgotten_or_written_to():
    store = PrefixStore(3 * ROW_BYTES, needs_ends=False)
    insert(store, [1, 2, 3])
    found = store.find([1, 2, 3])
    insert(store, [7, 7, 7])
    assert store.find([1, 2, 3]).length == 0
    check_found(found, [1, 2, 3])
    ((joined,),) = join_rows(found.segments)
    joined[..., 0:2, :] = mx.array(0.0)
    mx.eval(joined)
    check_found(found, [1, 2, 3])


def test_the_memory_of_a_part_is_given_back_with_it():
    """What is held must not keep the whole of a larger array alive."""
    store = PrefixStore(PLENTY, needs_ends=False)
    mx.clear_cache()
    before = mx.get_active_memory()
    store.insert([1, 2, 3], copy_of_much, None)
    assert mx.get_active_memory() - before < 10_000
    assert store.nbytes == 3 * ROW_BYTES


def copy_of_much(first, end):
    whole = mx.random.normal((1, 1, 100_000, 1))
    mx.eval(whole)
    return slice_rows(((whole,),), first, end)


@pytest.mark.parametrize("wanted_mb", [0, 7, 1024])
def test_as_much_is_held_as_the_user_allows(monkeypatch, wanted_mb):
    free = psutil.virtual_memory()._replace(available=100_000_000_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    assert limit_bytes(wanted_mb) == wanted_mb * 1_000_000


def test_no_more_than_a_quarter_of_the_free_memory_is_held(monkeypatch):
    free = psutil.virtual_memory()._replace(available=400_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    assert limit_bytes(1024) == 100_000
