"""One transaction over every layer's cache: begin a pass, then keep the rows that were accepted.

Trimmable caches (plain and quantised KV) only; any other kind is refused by name.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from mlx_lm.models.cache import KVCache, QuantizedKVCache

from core.errors import UnsupportedCache

_TRIMMABLE = (KVCache, QuantizedKVCache)


class Transaction:
    """Counts what is committed in `caches` and what queued passes have added on top.

    Passes are committed in the order in which they began. `length` is the number of committed positions.
    """

    def __init__(self, caches: list[Any]) -> None:
        for cache in caches:
            # Exact types: a subclass may override how it stores and trims.
            if type(cache) not in _TRIMMABLE:
                raise UnsupportedCache(
                    f"This target keeps a {type(cache).__name__}, which cannot be rolled back yet.",
                    "Choose a target whose layers all use full attention.",
                )
        self.caches = caches
        self.length = 0
        self._queued: deque[int] = deque()

    def begin(self, rows: int) -> None:
        """A pass that appends `rows` positions is being queued."""
        self._queued.append(rows)

    def commit(self, rows: int) -> None:
        """Of the oldest queued pass keep the first `rows` positions and forget the rest.

        Raises `ValueError` where the pass has fewer rows, or where a later pass already stands on dropped ones.
        """
        if not self._queued or not 0 <= rows <= self._queued[0]:
            raise ValueError(f"cannot commit {rows} rows of the passes {list(self._queued)}")
        dropped = self._queued[0] - rows
        if dropped and len(self._queued) > 1:
            raise ValueError("a later pass stands on the rows to drop")
        self._queued.popleft()
        self._drop(dropped)
        self.length += rows

    def abort(self) -> None:
        """Forget every queued pass."""
        self._drop(sum(self._queued))
        self._queued.clear()

    def trim_to(self, length: int) -> None:
        """Forget committed positions from `length` on. Raises `ValueError` while a pass is queued."""
        if self._queued or not 0 <= length <= self.length:
            raise ValueError(f"cannot trim {self.length} positions to {length} with {len(self._queued)} passes queued")
        self._drop(self.length - length)
        self.length = length

    def _drop(self, rows: int) -> None:
        if rows:
            for cache in self.caches:
                cache.trim(rows)
