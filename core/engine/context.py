"""The draft's view of everything committed: context K/V of each layer, and tap rows not turned into K/V yet.

The context belongs to no drafter and no mode. Plain decoding queues its rows here as well, so that any drafter can
take over at any step.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache

import ane
from core.engine.cache_copies import Rows, put_rows, rows_of

MAX_PENDING_ROWS = 1024
"""Above this many queued rows the owner ingests them, to bound memory."""


class DraftContext:
    """Context keys and values (after k_norm and RoPE) of committed positions 0..length-1.

    `caches[i]` holds layer i's K and V for MLX as [1, kv heads, positions, head dim]; `running` holds those of the
    draft that runs as programs, once its drafter has set it. One of them has the first `ingested` positions; the other
    may be behind until it is levelled. The rest waits as tap rows.
    """

    def __init__(self, layers: int) -> None:
        self.caches = [KVCache() for _ in range(layers)]
        self.running: ane.Draft | None = None
        self._running_length = 0  # not asked of it: it may be at work on another thread
        self._pending: list[tuple[mx.array, ...]] = []
        self.pending_rows = 0

    @property
    def ingested(self) -> int:
        """Positions whose K/V are there."""
        return max(self._cached, self._running_length)

    @property
    def _cached(self) -> int:
        return int(self.caches[0].offset)

    @property
    def length(self) -> int:
        """Positions committed, ingested or not."""
        return self.ingested + self.pending_rows

    def queue(self, taps: Sequence[mx.array]) -> None:
        """Append committed rows: one [n, hidden] array a tap."""
        self._pending.append(tuple(taps))
        self.pending_rows += taps[0].shape[0]

    def pending(self) -> tuple[mx.array, ...]:
        """All queued rows, one [n, hidden] array a tap; none where no row is queued."""
        return tuple(mx.concatenate(list(parts)) for parts in zip(*self._pending, strict=True))

    def take_pending(self) -> tuple[mx.array, ...]:
        """`pending`, no longer queued. The caller appends their K/V to `caches`, which it has levelled."""
        rows = self.pending()
        self._pending = []
        self.pending_rows = 0
        return rows

    def hand_to_running(self) -> tuple[mx.array, ...]:
        """`pending`, no longer queued. The caller has `running` ingest them, or takes them back."""
        self._running_length += self.pending_rows
        return self.take_pending()

    def take_back(self, rows: tuple[mx.array, ...]) -> None:
        """`running` failed with rows that were handed to it: they are queued again, before all others."""
        assert self.running is not None
        if rows:
            self._running_length -= rows[0].shape[0]
            self._pending.insert(0, rows)
            self.pending_rows += rows[0].shape[0]
        self.running.trim_to(self._running_length)

    def trim_to(self, length: int) -> None:
        """Forget positions from `length` on."""
        surplus = self.length - length
        while surplus > 0 and self._pending:
            last = self._pending.pop()
            rows = last[0].shape[0]
            if rows > surplus:
                self._pending.append(tuple(tap[: rows - surplus] for tap in last))
            dropped = min(rows, surplus)
            self.pending_rows -= dropped
            surplus -= dropped
        surplus = max(self._cached - length, 0)
        for cache in self.caches:
            cache.trim(surplus)
        if self.running is not None and self._running_length > length:
            self.running.trim_to(length)
            self._running_length = length

    def rows(self) -> Rows:
        """All that `caches` hold, by layer; their arrays are longer than that."""
        return tuple(rows_of(cache) for cache in self.caches)

    def restore(self, length: int, rows: Rows, known: int) -> None:
        """Let exactly these `length` positions be there; the first `known` are those that are there now.

        The arrays are the caches' from now on.
        """
        self.trim_to(known)
        self.take_pending()
        for cache, arrays in zip(self.caches, rows, strict=True):
            put_rows(cache, arrays, length)

    def level_caches(self, dtype: mx.Dtype) -> None:
        """Copy into `caches`, whose type is `dtype`, what only `running` has."""
        first = self._cached
        missing = self.ingested - first
        if missing and self.running is not None:
            info = self.running.info
            shape = (info.num_key_value_heads, missing, info.head_dim)
            keys, values = ([np.empty(shape, np.float32) for _ in self.caches] for _ in range(2))
            self.running.read(first, *([array.swapaxes(1, 2) for array in arrays] for arrays in (keys, values)))
            for cache, parts in zip(self.caches, zip(keys, values, strict=True), strict=True):
                cache.update_and_fetch(*(mx.array(part[None]).astype(dtype) for part in parts))

    def level_running(self) -> None:
        """Copy into `running` what only `caches` have; waits for them."""
        assert self.running is not None
        first = self._running_length
        if first < self._cached:
            rows = slice(first, self._cached)
            parts = [
                [part[0, :, rows].astype(mx.float32) for part in (cache.keys, cache.values)] for cache in self.caches
            ]
            mx.eval(parts)
            keys, values = ([np.asarray(part).swapaxes(1, 2) for part in side] for side in zip(*parts, strict=True))
            self.running.append(keys, values)
            self._running_length = self._cached

    def lose_running(self) -> int:
        """`running` never came back: forget it and all queued rows. Returns from where on rows must be queued anew."""
        self.running = None
        self._running_length = 0
        self.take_pending()
        return self._cached
