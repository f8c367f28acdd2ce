"""Where Python's garbage is collected."""

from __future__ import annotations

import threading
import weakref

from PySide6.QtCore import QObject, QThread, QTimer
from pytestqt.qtbot import QtBot

from app.garbage import GarbageCollector


class Cycle(QObject):
    """Garbage only a collector finds, with a timer that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.itself = self
        self.timer = QTimer(self)
        self.timer.start(1)


def test_a_thread_that_allocates_collects_nothing_and_the_event_loop_does(
    garbage: GarbageCollector,  # noqa: ARG001
    qtbot: QtBot,
) -> None:
    threads: list[QThread] = []
    cycle = Cycle()
    cycle.destroyed.connect(lambda: threads.append(QThread.currentThread()))
    gone = weakref.ref(cycle)
    del cycle
    kept: list[list[int]] = []
    allocating = threading.Thread(target=lambda: kept.extend([number] for number in range(200_000)))
    allocating.start()
    allocating.join()
    assert gone() is not None
    qtbot.waitUntil(lambda: gone() is None and bool(threads))
    assert threads == [QThread.currentThread()]
