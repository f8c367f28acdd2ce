"""Runs the window: the Qt application, its event loop, and a clean end."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence

import qasync
from PySide6.QtWidgets import QApplication

from app import logs
from app.chat.highlight import warm_up
from app.crash import CrashWatch
from app.engine import Engine
from app.garbage import GarbageCollector
from app.language import tr
from app.main_window import MainWindow
from app.pairs.last_pair import start_pair
from app.preload import preload
from app.settings.model import SettingsModel
from app.surroundings import Surroundings
from app.theme import Scheme, Theme
from app.tray import tray_icon
from core.errors import InternalError, Problem
from core.pairs import Pair

_log = logging.getLogger(__name__)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(scheme: Scheme | None = None, command: Sequence[str] | None = None, pair: Pair | None = None) -> int:
    """Open the window and return once it is closed and the engine process has ended.

    Without a `scheme` the settings name it. `command` starts another engine process than the usual one; `pair` is
    loaded instead of the one that the settings name, or that was used last.
    """
    watch = CrashWatch(logs.log_file())
    ended: Problem | None = None
    try:
        ended = watch.begin()
    except OSError as error:
        _log.warning("A crash would not be reported: %s", error)
    try:
        _run(scheme, command, pair, ended)
    except BaseException as error:
        watch.note(error)
        raise
    watch.end()
    return 0


def _run(scheme: Scheme | None, command: Sequence[str] | None, pair: Pair | None, ended: Problem | None) -> None:
    app = QApplication(sys.argv[:1])
    app.setApplicationName("Mirror SD")
    app.setWindowIcon(tray_icon(""))
    garbage = GarbageCollector(app)
    app.setQuitOnLastWindowClosed(False)  # or the loop would end before the engine process
    settings = SettingsModel(parent=app)
    problems = [ended] if ended else []

    def keep(problem: Problem) -> None:
        problems.append(problem)

    settings.problem_met.connect(keep)
    settings.look_again()
    settings.problem_met.disconnect(keep)
    theme = Theme(app, scheme or settings.values.theme)
    with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(app)) as runner:
        runner.run(_live(command, pair, settings, theme, problems))
    garbage.close()


async def _live(
    command: Sequence[str] | None, pair: Pair | None, settings: SettingsModel, theme: Theme, problems: list[Problem]
) -> None:
    """`problems` were met before there was a window; the first of them is told."""
    engine = Engine(command)
    window = MainWindow(engine, lambda: pair or start_pair(settings.values.pair))
    logs.set_up(lambda error: window.show_problem(_defect(error)))
    surroundings = Surroundings(window, engine, settings, theme)
    closing = asyncio.Event()
    window.close_requested.connect(closing.set)

    def leave() -> None:  # nobody is there to be asked
        surroundings.question.agreed = True
        window.close()

    loop = asyncio.get_running_loop()
    for number in _ENDING:
        loop.add_signal_handler(number, leave)
    window.show()
    window.start()
    for problem in reversed(problems):
        window.show_problem(problem)
    loop.call_later(0.5, warm_up)
    loop.call_later(1.0, preload)
    await closing.wait()
    await surroundings.close()
    await window.end()
    for number in _ENDING:
        loop.remove_signal_handler(number)
    window.close_now()


def _defect(error: BaseException) -> Problem:
    return InternalError(
        tr("Something in the window went wrong."),
        tr("You can go on. The log has the details: {file}").format(file=logs.log_file()),
        f"{type(error).__name__}: {error}",
    ).problem
