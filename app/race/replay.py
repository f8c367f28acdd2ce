"""The clock that both sides of a race are shown on."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

_FRAME_MS = 33


class Replay(QObject):
    """Runs from 0 to an end, in real time."""

    moved = Signal(float)
    """The time now, in seconds."""
    ended = Signal()

    def __init__(self, parent: QObject | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self._clock = clock
        self._begun_s = self._end_s = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(_FRAME_MS)
        self._timer.timeout.connect(self.advance)

    @property
    def running(self) -> bool:
        """Whether the clock runs."""
        return self._timer.isActive()

    def start(self, end_s: float) -> None:
        """Run from 0 to `end_s`."""
        self._begun_s, self._end_s = self._clock(), end_s
        self._timer.start()
        self.moved.emit(0.0)

    def skip(self) -> None:
        """To the end at once."""
        if self.running:
            self._finish()

    def stop(self) -> None:
        """Stop where it is."""
        self._timer.stop()

    def advance(self) -> None:
        """Show the time that it is now."""
        time_s = self._clock() - self._begun_s
        if time_s >= self._end_s:
            self._finish()
        else:
            self.moved.emit(time_s)

    def _finish(self) -> None:
        self._timer.stop()
        self.moved.emit(self._end_s)
        self.ended.emit()
