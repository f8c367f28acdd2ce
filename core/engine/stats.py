"""What plain decoding costs on this machine: measured, so that a speed-up has something to stand against."""

from __future__ import annotations

from collections import deque
from statistics import median

_KEPT = 65


class PlainCost:
    """The median time of the last one-row passes of the target."""

    def __init__(self) -> None:
        self._passes_ms: deque[float] = deque(maxlen=_KEPT)

    def add(self, pass_ms: float) -> None:
        """A one-row pass took this long, from device free to choice known."""
        self._passes_ms.append(pass_ms)

    @property
    def pass_ms(self) -> float:
        """Milliseconds a pass; 0 where none was measured."""
        return median(self._passes_ms) if self._passes_ms else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Plain decoding's speed; 0 where none was measured."""
        return 1e3 / self.pass_ms if self._passes_ms else 0.0
