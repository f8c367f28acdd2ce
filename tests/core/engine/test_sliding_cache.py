"""The window that can be trimmed: the rows and masks of mlx-lm's rotating cache, in order, and a way back."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import RotatingKVCache

from core.engine.sliding_cache import SlidingCache

WINDOW = 5
PASSES = [3, 1, 1, 4, 1, 1, 1, 1, 7, 2, 1, 12, 1, 1]


@pytest.fixture(autouse=True)
def _little_room(monkeypatch):
    monkeypatch.setattr("core.engine.sliding_cache.SPARE_ROWS", 4)
    monkeypatch.setattr("core.engine.sliding_cache._GROWTH_ROWS", 3)


def rows(first: int, count: int) -> mx.array:
    """[1, 1, count, 1]: each row is its position."""
    return mx.arange(first, first + count, dtype=mx.float32)[None, None, :, None]


def append(cache, count: int) -> list[int]:
    """Append rows that are their positions; the positions that are returned."""
    first = cache.offset
    keys, values = cache.update_and_fetch(rows(first, count), -rows(first, count))
    assert mx.array_equal(keys, -values)
    return [int(position) for position in np.array(keys).reshape(-1)]


def seen(cache, count: int, window_size: int | None) -> list[set[int]]:
    """Append `count` rows; the positions that each of them sees."""
    offset = cache.offset
    mask = cache.make_mask(count, window_size=window_size)
    positions = append(cache, count)
    if mask is None:
        return [set(positions)] * count
    if isinstance(mask, str):
        assert mask == "causal"
        return [{p for p in positions if p <= offset + row} for row in range(count)]
    allowed = np.array(mask).reshape(count, -1)
    return [{p for p, may in zip(positions, row, strict=True) if may} for row in allowed]


@pytest.mark.parametrize("window_size", [None, WINDOW, 3])
def test_every_query_sees_what_it_sees_in_the_rotating_cache(window_size):
    ours, theirs = SlidingCache(WINDOW), RotatingKVCache(WINDOW)
    for count in PASSES:
        position = ours.offset
        expected = seen(theirs, count, window_size)
        assert seen(ours, count, window_size) == expected
        for row, positions in enumerate(expected):
            newest = position + row
            assert positions == set(range(max(newest - (window_size or WINDOW) + 1, 0), newest + 1))
    assert ours.offset == theirs.offset == sum(PASSES)
    assert ours.size() == theirs.size() == WINDOW


def test_rows_are_in_order_and_can_be_read_again():
    cache = SlidingCache(WINDOW)
    for count in PASSES:
        positions = append(cache, count)
        assert positions == sorted(positions)
        again, _ = cache.keys_and_values()
        assert [int(p) for p in np.array(again).reshape(-1)] == positions


@pytest.mark.parametrize("count", [1, 6, 20])
def test_a_whole_pass_can_always_be_dropped(count):
    cache = SlidingCache(WINDOW)
    for _ in range(30):
        append(cache, count)
        cache.trim(count)
        kept = cache.offset
        positions = append(cache, 1)
        assert positions == list(range(max(kept - WINDOW + 1, 0), kept + 1))


def test_a_trim_below_what_is_kept_is_refused_and_the_least_length_is_right():
    cache = SlidingCache(WINDOW)
    for _ in range(40):
        append(cache, 1)
    least = cache.least_length
    assert WINDOW < least <= cache.offset - 4
    with pytest.raises(ValueError, match="least is"):
        cache.trim(cache.offset - least + 1)
    cache.trim(cache.offset - least)
    assert append(cache, 1) == list(range(least - WINDOW + 1, least + 1))


def test_before_anything_is_forgotten_it_can_go_back_to_nothing():
    cache = SlidingCache(WINDOW)
    append(cache, 3)
    append(cache, 1)
    assert cache.least_length == 0
    cache.trim(4)
    assert append(cache, 2) == [0, 1]


def test_memory_does_not_grow_with_the_text():
    cache = SlidingCache(WINDOW)
    for _ in range(200):
        append(cache, 2)
    assert cache.keys.shape[2] <= WINDOW + 4 + 3
