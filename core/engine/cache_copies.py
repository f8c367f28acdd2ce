"""Copies of what caches hold, that no later pass changes.

A cache of full attention holds rows, one a position: any beginning of them can be copied and put back. A sliding
window or a recurrent state holds what its last position needs only, so it is copied at the very positions to which a
conversation may go back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, ChunkedKVCache, KVCache, QuantizedKVCache

from core.engine.sliding_cache import SlidingCache

Rows = tuple[tuple[mx.array, ...], ...]
"""By cache, none for one that its model does not use: arrays [1, kv heads, positions, channels]."""
Window = tuple[mx.array, mx.array]
"""Keys and values that the positions after a point may see, [1, kv heads, rows, channels]."""


@dataclass(frozen=True)
class EndState:
    """What caches without rows hold after some position."""

    windows: tuple[Window | None, ...]
    """None where the model does not use the cache."""
    states: tuple[tuple[mx.array | None, ...], ...]

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return sum(array.nbytes for array in self._arrays())

    def evaluated(self) -> EndState:
        """Itself, once its arrays are there."""
        mx.eval(list(self._arrays()))
        return self

    def _arrays(self) -> Iterator[mx.array]:
        for parts in (*self.windows, *self.states):
            yield from (array for array in parts or () if array is not None)


def slice_rows(rows: Rows, first: int, end: int) -> Rows:
    """Positions `first` to `end`, copied: memory that they shared with others is not held by them. Waits."""
    part = tuple(tuple(mx.contiguous(array[..., first:end, :]) for array in arrays) for arrays in rows)
    mx.eval(part)
    return part


def join_rows(segments: Sequence[Rows]) -> Rows:
    """One segment's positions after the other's; lazily, in arrays that may be written to."""
    return tuple(tuple(_joined(parts) for parts in zip(*arrays, strict=True)) for arrays in zip(*segments, strict=True))


def rows_nbytes(rows: Rows) -> int:
    """Bytes of all arrays."""
    return sum(array.nbytes for arrays in rows for array in arrays)


def rows_of(cache: KVCache | QuantizedKVCache) -> tuple[mx.array, ...]:
    """All arrays of a cache, longer than what it holds; none where it is empty."""
    if cache.keys is None:
        return ()
    return (*cache.keys, *cache.values) if isinstance(cache, QuantizedKVCache) else (cache.keys, cache.values)


def put_rows(cache: KVCache | QuantizedKVCache, arrays: tuple[mx.array, ...], length: int) -> None:
    """Let the cache hold these `length` positions, and nothing else. The arrays are the cache's from now on."""
    half = len(arrays) // 2
    keys, values = arrays[:half], arrays[half:]
    cache.offset = length if arrays else 0
    if isinstance(cache, QuantizedKVCache):
        cache.keys, cache.values = (list(keys), list(values)) if arrays else (None, None)
    else:
        cache.keys, cache.values = (keys[0], values[0]) if arrays else (None, None)


def copy_end(windows: Sequence[tuple[Any, Any]], states: Sequence[Sequence[mx.array | None]]) -> EndState:
    """The state of windowed caches, each with what its `state` says, and of recurrent ones; waits."""
    return EndState(
        tuple(_window(cache, state) for cache, state in windows),
        tuple(tuple(None if array is None else mx.contiguous(array) for array in state) for state in states),
    ).evaluated()


def put_end(windowed: Sequence[Any], recurrent: Sequence[ArraysCache], length: int, end: EndState) -> None:
    """Let these caches be as they were after `length` positions."""
    for cache, window in zip(windowed, end.windows, strict=True):
        _put_window(cache, window, length)
    for cache, state in zip(recurrent, end.states, strict=True):
        cache.cache = list(state)


def _joined(parts: Sequence[mx.array]) -> mx.array:
    # `copy`: writing to an array of MLX changes the object, not what others hold of it.
    return copy(parts[0]) if len(parts) == 1 else mx.concatenate(list(parts), axis=2)


def _window(cache: SlidingCache | ChunkedKVCache, state: Any) -> Window | None:
    keys, values, offset, *rest = state
    if keys is None:
        return None
    if isinstance(cache, SlidingCache):
        _, window, end = rest
        first = max(end - (window - 1), 0)
    else:
        first, end = 0, offset - rest[-1]
    return mx.contiguous(keys[..., first:end, :]), mx.contiguous(values[..., first:end, :])


def _put_window(cache: SlidingCache | ChunkedKVCache, window: Window | None, length: int) -> None:
    rows = 0 if window is None else window[0].shape[2]
    cache.keys, cache.values = (None, None) if window is None else (copy(window[0]), copy(window[1]))
    cache.offset = 0 if window is None else length
    if isinstance(cache, SlidingCache):
        cache._idx = rows
    else:
        cache.start_position = cache.offset - rows
