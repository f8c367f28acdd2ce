"""The K/V of a layer with a sliding window, kept in order and with spare rows, so that the last ones can be dropped.

mlx-lm's `RotatingKVCache` overwrites the oldest row of a full window: what a dropped row has overwritten is gone, and
its `trim` then leaves a wrong window without a word. This one appends, and now and then moves the last rows to the
front of a new buffer.
"""

from __future__ import annotations

import mlx.core as mx
from mlx_lm.models.cache import RotatingKVCache

SPARE_ROWS = 256
"""Rows kept beyond the window, at least: that many positions can be dropped at any time."""
_GROWTH_ROWS = 256


class SlidingCache(RotatingKVCache):
    """`keys[..., :_idx, :]` and `values` are the newest `_idx` of `offset` positions, [1, kv heads, rows, head dim].

    The class mlx-lm's models expect, with the same rows for each query and the same masks.
    """

    keys: mx.array
    values: mx.array
    offset: int
    max_size: int
    _idx: int

    def __init__(self, window: int) -> None:
        super().__init__(max_size=window)
        self._first = 0
        """The first row that the newest queries see."""

    @property
    def least_length(self) -> int:
        """The smallest number of positions to which `trim` can go back with the whole window still there."""
        forgotten = self.offset - self._idx
        return forgotten + self.max_size - 1 if forgotten else 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows; all the rows that the appended ones may see, themselves included."""
        rows = keys.shape[2]
        if self.keys is None or self._idx + rows > self.keys.shape[2]:
            self._make_room(keys, values)
        end = self._idx + rows
        self.keys[..., self._idx : end, :] = keys
        self.values[..., self._idx : end, :] = values
        self._first = max(self._idx - self.max_size + 1, 0)
        self._idx = end
        self.offset += rows
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """What the last `update_and_fetch` returned: some layers share it."""
        seen = slice(self._first, self._idx)
        return self.keys[..., seen, :], self.values[..., seen, :]

    def make_mask(self, rows: int, window_size: int | None = None, return_array: bool = False) -> mx.array | str | None:
        """See `RotatingKVCache`; here rows are always in order."""
        if rows > 1:
            mask: mx.array | str | None = super().make_mask(rows, window_size, return_array)
            return mask
        seen = min(self.offset + 1, self.max_size)
        if window_size is None or seen <= window_size:
            return None
        return mx.arange(seen) >= seen - window_size

    def is_trimmable(self) -> bool:
        """Always, down to `least_length`."""
        return True

    def trim(self, n: int) -> int:
        """Drop the newest `n` positions. Raises `ValueError` where the window before them is no longer whole."""
        if self.offset - n < self.least_length:
            raise ValueError(f"cannot go back from {self.offset} to {self.offset - n}, least is {self.least_length}")
        self.offset -= n
        self._idx -= n
        return n

    def _make_room(self, keys: mx.array, values: mx.array) -> None:
        """New buffers that begin with the newest rows and have room for `keys` and `values`."""
        first = max(self._idx - (self.max_size - 1 + SPARE_ROWS), 0)
        room = max(keys.shape[2], _GROWTH_ROWS)
        self.keys = _moved(self.keys, first, self._idx, room, keys)
        self.values = _moved(self.values, first, self._idx, room, values)
        self._idx -= first


def _moved(old: mx.array | None, first: int, end: int, room: int, like: mx.array) -> mx.array:
    new = mx.zeros((*like.shape[:2], room, like.shape[3]), like.dtype)
    return new if old is None else mx.concatenate([old[..., first:end, :], new], axis=2)
