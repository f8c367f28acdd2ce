"""One transaction over every layer's cache: begin a pass, then keep the rows that were accepted.

* K/V of full attention, quantised or in chunks: the newest rows are trimmed.
* K/V of a sliding window: a cache with spare rows takes the place of mlx-lm's, and is trimmed as well.
* Recurrent states: put back as before the pass, then advanced by the accepted rows once more (`recurrence.py`).

All of it is lazy: nothing here waits for the device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
)

from core.engine.cache_copies import EndState, Rows, copy_end, put_end, put_rows, rows_of
from core.engine.recurrence import Recorder, Recording
from core.engine.sliding_cache import SlidingCache
from core.errors import UnsupportedCache

_WHOLE = (KVCache, QuantizedKVCache)
_WINDOWED = (SlidingCache, ChunkedKVCache)


@dataclass(frozen=True)
class _Pass:
    """A queued pass, and what it takes to undo it."""

    rows: int
    states: list[list[mx.array | None]]
    """Of each recurrent cache, before the pass."""
    recording: Recording | None
    """None where all rows or none will be kept, and where no layer is recurrent."""


@dataclass(frozen=True)
class _Mark:
    """A point to which caches can go back that cannot be trimmed so far."""

    length: int
    windows: list[Any]
    """mlx-lm's state of each windowed cache. Its buffers are appended to only, so the rows before `length` stay."""
    states: list[list[mx.array | None]]


class Transaction:
    """Counts what is committed in `caches` and what queued passes have added on top.

    Passes are committed in the order in which they began. `length` is the number of committed positions.
    """

    def __init__(self, caches: Sequence[Any], layers: Sequence[nn.Module] = ()) -> None:
        """`layers` are those that advance the caches: where any is recurrent, its passes are watched.

        Raises `UnsupportedCache`, naming the class, for a cache of a kind that is not known.
        """
        self.caches = [_droppable(cache) for cache in caches]
        parts = list(_parts(self.caches))
        self._recurrent = [cache for cache in parts if isinstance(cache, ArraysCache)]
        self._windowed = [cache for cache in parts if isinstance(cache, _WINDOWED)]
        self._trimmable = [cache for cache in parts if not isinstance(cache, ArraysCache)]
        self._whole = [cache for cache in parts if isinstance(cache, _WHOLE)]
        self._recorder = Recorder(layers, self._recurrent) if self._recurrent else None
        self.length = 0
        self._queued: deque[_Pass] = deque()
        self._mark: _Mark | None = None

    @property
    def needs_marks(self) -> bool:
        """Whether `cut` may be unable to go back to every length."""
        return bool(self._recurrent or self._windowed)

    @contextmanager
    def begin(self, rows: int, whole: bool = False) -> Iterator[None]:
        """A pass that appends `rows` positions is queued inside. `whole`: all of them will be kept, or none.

        Raises `UnsupportedCache` where a recurrent state is advanced in a way that cannot be repeated.
        """
        states = self._states()
        if self._recorder is None or whole or rows == 1:
            self._queued.append(_Pass(rows, states, None))
            yield
            return
        with self._recorder.record(rows) as recording:
            self._queued.append(_Pass(rows, states, recording))
            yield

    def commit(self, rows: int) -> None:
        """Of the oldest queued pass keep the first `rows` positions and forget the rest.

        Raises `ValueError` where the pass has fewer rows, or where a later pass already stands on dropped ones.
        """
        if not self._queued or not 0 <= rows <= self._queued[0].rows:
            raise ValueError(f"cannot commit {rows} rows of the passes {[queued.rows for queued in self._queued]}")
        dropped = self._queued[0].rows - rows
        if dropped and len(self._queued) > 1:
            raise ValueError("a later pass stands on the rows to drop")
        if dropped and rows and self._recorder is not None and self._queued[0].recording is None:
            raise ValueError(f"a pass begun whole cannot keep {rows} rows of {self._queued[0].rows}")
        done = self._queued.popleft()
        self.length += rows
        if dropped:
            self._drop_from(self.length, done.states)
            if rows and self._recorder is not None and done.recording is not None:
                self._recorder.replay(done.recording, rows)

    def abort(self) -> None:
        """Forget every queued pass."""
        if self._queued:
            self._drop_from(self.length, self._queued[0].states)
            self._queued.clear()

    def mark(self) -> None:
        """Remember the present state, in place of the one remembered before, for `cut` to go back to."""
        if self.needs_marks:
            self._mark = _Mark(self.length, [cache.state for cache in self._windowed], self._states())

    def cut(self, length: int) -> int:
        """Forget committed positions from `length` on. Returns how many stay.

        They are fewer where a cache cannot go back to `length`: those before the mark, or none. Raises `ValueError`
        while a pass is queued.
        """
        if self._queued or not 0 <= length <= self.length:
            raise ValueError(f"cannot cut {self.length} positions to {length} with {len(self._queued)} passes queued")
        if length == self.length:
            return length
        if self._mark is not None and self._mark.length > length:
            self._mark = None
        if length and not self._can_trim(length):
            return self._return_to_mark() if self._mark else self.cut(0)
        self.length = length
        if length == 0:
            for cache in self._windowed:
                _empty(cache)
        self._drop_from(length, [[None] * len(cache.cache) for cache in self._recurrent])
        return length

    def reach(self, length: int) -> int:
        """How many positions `cut` would leave."""
        if length in (0, self.length) or self._can_trim(length):
            return length
        return self._mark.length if self._mark and self._mark.length <= length else 0

    def rows(self) -> Rows:
        """Of the caches that hold a row for every position; they are longer than what is committed."""
        return tuple(rows_of(cache) for cache in self._whole)

    def copy_end(self) -> EndState:
        """What the other caches hold after the committed positions; waits. No pass may be queued."""
        return copy_end([(cache, cache.state) for cache in self._windowed], self._states())

    def copy_mark(self) -> tuple[int, EndState] | None:
        """The point of `mark`, where there is one: its length, and what the other caches held; waits."""
        if self._mark is None:
            return None
        windows = list(zip(self._windowed, self._mark.windows, strict=True))
        return self._mark.length, copy_end(windows, self._mark.states)

    def restore(self, length: int, rows: Rows, end: EndState | None) -> None:
        """Let exactly these `length` positions be committed. `end` may be missing where no mark is ever needed.

        The arrays are the caches' from now on. Raises `ValueError` while a pass is queued.
        """
        if self._queued:
            raise ValueError(f"cannot restore {length} positions with {len(self._queued)} passes queued")
        for cache, arrays in zip(self._whole, rows, strict=True):
            put_rows(cache, arrays, length)
        if end is not None:
            put_end(self._windowed, self._recurrent, length, end)
        self.length = length
        self.mark()

    def _can_trim(self, length: int) -> bool:
        return not self._recurrent and all(length >= _least_length(cache) for cache in self._windowed)

    def _return_to_mark(self) -> int:
        assert self._mark is not None
        self.length = self._mark.length
        for cache, state in zip(self._windowed, self._mark.windows, strict=True):
            cache.state = state
        self._drop_from(self.length, self._mark.states)
        return self.length

    def _states(self) -> list[list[mx.array | None]]:
        return [list(cache.cache) for cache in self._recurrent]

    def _drop_from(self, length: int, states: list[list[mx.array | None]]) -> None:
        """Trim what can be trimmed to `length`, and give recurrent caches these states."""
        for cache in self._trimmable:
            if cache.offset > length:
                cache.trim(cache.offset - length)
        for cache, state in zip(self._recurrent, states, strict=True):
            cache.cache = list(state)


def _parts(caches: Sequence[Any]) -> Iterator[Any]:
    """The caches, those in lists of caches one by one."""
    for cache in caches:
        if type(cache) is CacheList:
            yield from _parts(cache.caches)
        else:
            yield cache


def _droppable(cache: Any) -> Any:
    """The cache itself, or one in its place whose newest rows can be dropped. Raises `UnsupportedCache`."""
    # Exact types: a subclass may override how it stores and trims.
    kind = type(cache)
    if kind is CacheList:
        cache.caches = tuple(_droppable(part) for part in cache.caches)
    elif kind is RotatingKVCache and cache.keep == 0:
        return SlidingCache(cache.max_size)
    elif kind not in (*_WHOLE, *_WINDOWED, ArraysCache):
        raise UnsupportedCache(
            f"This target keeps a {kind.__name__}, which cannot be rolled back yet.", "Choose another target."
        )
    return cache


def _least_length(cache: SlidingCache | ChunkedKVCache) -> int:
    """The smallest length to which the cache can be trimmed."""
    if isinstance(cache, SlidingCache):
        return cache.least_length
    start: int = cache.start_position
    return start + cache.chunk_size - 1 if start else 0


def _empty(cache: SlidingCache | ChunkedKVCache) -> None:
    cache.keys = cache.values = None
    cache.offset = 0
    if isinstance(cache, SlidingCache):
        cache._idx = 0
    else:
        cache.start_position = 0
