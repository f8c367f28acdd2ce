"""Collects Python's garbage in the window's thread alone.

Python collects in whatever thread happens to allocate. Cycles that hold Qt objects would then be destroyed in a worker
thread, from which their timers cannot be stopped: the event loop goes on to call what is gone, and the program crashes.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

_EVERY_MS = 200


class GarbageCollector(QObject):
    """Takes over from Python's own collector, by its thresholds, until `close`."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        gc.disable()
        self._thresholds = gc.get_threshold()
        self._timer = QTimer(self)
        self._timer.setInterval(_EVERY_MS)
        self._timer.timeout.connect(self._collect)
        self._timer.start()

    def close(self) -> None:
        """Leave it to Python again."""
        self._timer.stop()
        gc.enable()

    def _collect(self) -> None:
        counts = gc.get_count()
        for generation in (2, 1, 0):
            if counts[generation] > self._thresholds[generation]:
                gc.collect(generation)
                return
