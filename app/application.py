"""Runs the window: the Qt application, its event loop, and a clean end."""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import sys
from collections.abc import Callable, Sequence

import qasync
from PySide6.QtWidgets import QApplication

from app import logs
from app.chat.highlight import warm_up
from app.engine import Engine
from app.main_window import MainWindow
from app.pairs.last_pair import first_pair
from app.theme import Scheme, Theme
from core.errors import InternalError, Problem
from core.pairs import Pair


def run(scheme: Scheme = "system", command: Sequence[str] | None = None, pair: Pair | None = None) -> int:
    """Open the window and return once it is closed and the engine process has ended.

    `command` starts another engine process than the usual one; `pair` is loaded instead of the one used last.
    """
    faulthandler.enable()
    app = QApplication(sys.argv[:1])
    app.setApplicationName("Mirror SD")
    app.setQuitOnLastWindowClosed(False)  # or the loop would end before the engine process
    Theme(app, scheme)
    with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(app)) as runner:
        runner.run(_live(command, (lambda: pair) if pair else first_pair))
    return 0


async def _live(command: Sequence[str] | None, choose_pair: Callable[[], Pair]) -> None:
    window = MainWindow(Engine(command), choose_pair)
    logs.set_up(lambda error: window.show_problem(_defect(error)))
    closing = asyncio.Event()
    window.close_requested.connect(closing.set)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, window.close)
    window.show()
    window.start()
    loop.call_later(0.5, warm_up)
    await closing.wait()
    await window.end()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
    window.close_now()


def _defect(error: BaseException) -> Problem:
    return InternalError(
        "Something in the window went wrong.",
        f"You can go on. The log has the details: {logs.log_file()}",
        f"{type(error).__name__}: {error}",
    ).problem
