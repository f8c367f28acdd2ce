"""Fixtures for tests of the window: an event loop, windows with a stand-in worker, and a look at what is left over."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import psutil
import pytest
import qasync
import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QThread, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.transcript import Transcript
from app.engine import Engine
from app.garbage import GarbageCollector
from app.generation import Generation
from app.main_window import MainWindow
from app.pairs.sources import PairSources
from app.settings.model import SettingsModel
from app.surroundings import Surroundings
from app.theme import BODY_PX, CODE_PX, Theme
from core.pairs import Pair
from core.paths import settings_file
from helpers.window import PAIR, WAIT_MS, MakeGeneration, OpenWindow, stand_in


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test touches the user's files."""
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="session", autouse=True)
def garbage(qapp: QApplication) -> Iterator[GarbageCollector]:
    """As in the application: Qt objects are never destroyed in another thread."""
    collector = GarbageCollector(qapp)
    yield collector
    collector.close()


@pytest.fixture(scope="session")
def _theme(qapp: QApplication) -> Theme:
    qapp.setQuitOnLastWindowClosed(False)
    return Theme(qapp, "dark")


@pytest.fixture
def theme(_theme: Theme) -> Iterator[Theme]:
    """The application's theme, dark and in the usual sizes again after each test."""
    yield _theme
    _theme.set_scheme("dark")
    _theme.set_sizes(BODY_PX, CODE_PX)


@pytest.fixture
def loop(qapp: QApplication, _theme: Theme) -> Iterator[asyncio.AbstractEventLoop]:
    """A running asyncio loop on Qt's: coroutines go on while the test waits through `qtbot`."""
    loop = qasync.QEventLoop(qapp)
    asyncio._set_running_loop(loop)  # its callbacks are Qt timers: they run wherever Qt's events do
    yield loop
    asyncio._set_running_loop(None)
    loop.close()


@pytest.fixture
def transcript(qtbot: QtBot, theme: Theme) -> Transcript:  # noqa: ARG001
    """An empty transcript in a window of its own."""
    view = Transcript()
    qtbot.addWidget(view)
    view.resize(700, 500)
    view.show()
    qtbot.waitExposed(view)
    return view


@pytest.fixture
def make_generation(qtbot: QtBot, loop: asyncio.AbstractEventLoop) -> Iterator[MakeGeneration]:
    """Makes chats without a window; the arguments are the stand-in worker's."""
    made: list[Generation] = []

    def make(*options: str, choose_pair: Callable[[], Pair] = lambda: PAIR) -> Generation:
        generation = Generation(Engine(stand_in(*options)), choose_pair)
        made.append(generation)
        return generation

    yield make
    for generation in made:
        close(generation, qtbot, loop)


@pytest.fixture
def open_window(qtbot: QtBot, loop: asyncio.AbstractEventLoop) -> Iterator[OpenWindow]:
    """Opens windows that load the test pair; the arguments are the stand-in worker's."""
    opened: list[MainWindow] = []

    def open_(
        *options: str,
        command: list[str] | None = None,
        choose_pair: Callable[[], Pair] = lambda: PAIR,
        sources: Callable[[], PairSources] | None = None,
    ) -> MainWindow:
        window = MainWindow(Engine(command or stand_in(*options)), choose_pair, sources)
        opened.append(window)
        window.show()
        window.start()
        return window

    yield open_
    for window in opened:
        close(window, qtbot, loop)
        window.close_now()
        window.deleteLater()


@pytest.fixture
def file(home: Path) -> Path:  # noqa: ARG001
    return settings_file()


@pytest.fixture
def stored(file: Path) -> Callable[[], dict[str, object]]:
    """What the file holds now."""
    return lambda: json.loads(file.read_text()) if file.exists() else {}


@pytest.fixture
def open_around(
    open_window: OpenWindow, theme: Theme, file: Path, loop: asyncio.AbstractEventLoop, qtbot: QtBot
) -> Iterator[Callable[..., Surroundings]]:
    """Opens windows with their surroundings: first what the settings file holds, then what `open_window` takes."""
    opened: list[Surroundings] = []

    def open_(values: dict[str, object] | None = None, *options: str, **others: object) -> Surroundings:
        if values is not None:
            file.write_text(json.dumps(values))
        settings = SettingsModel()
        settings.look_again()
        window = open_window(*options, **others)
        opened.append(Surroundings(window, window._engine, settings, theme))
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow)
        return opened[-1]

    yield open_
    for around in opened:
        task = loop.create_task(around.close())
        qtbot.waitUntil(task.done, timeout=WAIT_MS)
        task.result()


def close(owner: Generation | MainWindow, qtbot: QtBot, loop: asyncio.AbstractEventLoop) -> None:
    """End a chat or a window, and its worker."""
    task = loop.create_task(owner.end() if isinstance(owner, MainWindow) else owner.close())
    qtbot.waitUntil(task.done, timeout=WAIT_MS)
    task.result()


@pytest.fixture(autouse=True)
def nothing_left_over(garbage: GarbageCollector) -> Iterator[None]:
    """A test that leaves a child process, a running QThread or an active QTimer behind fails."""
    gc.freeze()  # what was there before is not looked through: that took most of a test's time
    yield
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    gc.collect()
    assert psutil.Process().children(recursive=True) == []
    alive = [item for item in gc.get_objects() if isinstance(item, QThread | QTimer) and shiboken6.isValid(item)]
    assert not [item for item in alive if isinstance(item, QThread) and item.isRunning()]
    timers = [item for item in alive if isinstance(item, QTimer) and item.isActive()]
    assert [timer for timer in timers if timer.parent() is not garbage] == []
