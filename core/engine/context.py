"""The draft's view of everything committed: context K/V of each layer, and tap rows not turned into K/V yet.

The context belongs to no drafter and no mode. Plain decoding queues its rows here as well, so that any drafter can
take over at any step.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
from mlx_lm.models.cache import KVCache

MAX_PENDING_ROWS = 1024
"""Above this many queued rows the owner ingests them, to bound memory."""


class DraftContext:
    """Context keys and values (after k_norm and RoPE) of committed positions 0..length-1.

    `caches[i]` holds layer i's K and V as [1, kv heads, positions, head dim]. The first `ingested` positions are in
    them; the rest waits as tap rows.
    """

    def __init__(self, layers: int) -> None:
        self.caches = [KVCache() for _ in range(layers)]
        self._pending: list[tuple[mx.array, ...]] = []
        self.pending_rows = 0

    @property
    def ingested(self) -> int:
        """Positions whose K/V are in the caches."""
        return int(self.caches[0].offset)

    @property
    def length(self) -> int:
        """Positions committed, ingested or not."""
        return self.ingested + self.pending_rows

    def queue(self, taps: Sequence[mx.array]) -> None:
        """Append committed rows: one [n, hidden] array a tap."""
        self._pending.append(tuple(taps))
        self.pending_rows += taps[0].shape[0]

    def take_pending(self) -> tuple[mx.array, ...]:
        """All queued rows, one [n, hidden] array a tap. The caller appends their K/V to `caches`."""
        rows = tuple(mx.concatenate(list(parts)) for parts in zip(*self._pending, strict=True))
        self._pending = []
        self.pending_rows = 0
        return rows

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
        for cache in self.caches:
            cache.trim(max(surplus, 0))
