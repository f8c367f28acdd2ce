"""What a download tells of itself: typed, hashable, and never better than the truth."""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from core.errors import Problem
from core.message import Message

State = Literal["queued", "checking", "downloading", "paused", "stalled", "verifying", "done", "failed", "cancelled"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled")

_WINDOW_S = 5.0
_QUIET_S = 2.0
_LEAST_S = 0.5


class FileProgress(msgspec.Struct, frozen=True):
    """How far one file is."""

    name: str
    state: State
    bytes_done: int
    bytes_total: int
    attempt: int = 1
    """The current try in a row without bytes."""
    note: str = ""
    """Why it waits, in a sentence."""


class DownloadProgress(Message, frozen=True):
    """How far a model is."""

    repo: str
    revision: str
    commit: str
    """Empty until the hub has told it."""
    state: State
    bytes_done: int
    """On this disk or arrived, of the whole model."""
    bytes_total: int
    """0 until the hub has told it."""
    bytes_per_s: float | None
    """Over the last seconds; None where nothing arrives."""
    left_s: float | None
    """At this rate; None where nothing arrives."""
    attempt: int
    attempts: int
    """Tries in a row without bytes: this one, and after how many the download fails."""
    problem: Problem | None
    """Why it failed, is paused by itself, or stalls."""
    files: tuple[FileProgress, ...]
    folder: str = ""
    """Where the model is, once it is done."""


class RateMeter:
    """Bytes a second over the last seconds, from what has arrived by the network alone."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def sample(self, now_s: float, bytes_received: int) -> None:
        """Note the count of all bytes received so far; call it a few times a second."""
        self._samples.append((now_s, bytes_received))
        while len(self._samples) > 2 and self._samples[1][0] <= now_s - _WINDOW_S:
            self._samples.popleft()

    def bytes_per_s(self) -> float | None:
        """None while there is too little to tell from, and once nothing has arrived for two seconds."""
        if not self._samples:
            return None
        (first_s, first), (last_s, last) = self._samples[0], self._samples[-1]
        if last_s - first_s < _LEAST_S or last == first or self.quiet_s() >= _QUIET_S:
            return None
        return (last - first) / (last_s - first_s)

    def quiet_s(self) -> float:
        """For how long nothing has arrived, as far as the samples reach back."""
        if not self._samples:
            return 0.0
        last_s, last = self._samples[-1]
        return last_s - next(at for at, count in self._samples if count == last)
