"""The rooms around the real worker: settings in mid-answer, the question before quitting, memory freed, log, help."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QComboBox, QDialog, QLabel
from pytestqt.qtbot import QtBot

from app import logs
from app.engine import PairState
from app.generation import State
from app.help.about import About
from app.help.keys import KeySheet
from app.main_window import MainWindow
from app.surroundings import Surroundings
from app.theme import DARK, LIGHT, Colors
from core import __version__
from helpers.chats_window import ready, send, until_answered
from helpers.looks import assert_sound_look
from helpers.window import WAIT_MS

pytestmark = [pytest.mark.slow]
LONGEST_LOAD_MS = 240_000
LARGE_PX = 18


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The log goes to its file as in the program, but Qt's messages and exceptions stay with the tests."""
    monkeypatch.setattr(logs, "qInstallMessageHandler", lambda _: None)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    root = logging.getLogger()
    level = root.level
    logs.set_up(lambda _: None)
    yield
    root.setLevel(level)
    for handler in root.handlers[:]:
        if isinstance(handler, RotatingFileHandler):
            root.removeHandler(handler)
            handler.close()


@pytest.fixture
def around(
    open_around: Callable[..., Surroundings],
    demo: dict[str, Any],
    home: Path,
    qtbot: QtBot,
    logged: None,  # noqa: ARG001
) -> Surroundings:
    """A window with its surroundings, and a worker that has something to tell."""
    (home / "cache").mkdir(exist_ok=True)
    (home / "cache" / "loading_times.json").write_text("not JSON")
    around = open_around({}, **demo)
    window = around._window
    window.resize(1280, 800)
    qtbot.waitUntil(lambda: window.pair_button.state_text in ("ready", "failed"), timeout=LONGEST_LOAD_MS)
    ready(window, qtbot)
    return around


def test_the_rooms_work_while_an_answer_is_written_and_after(
    around: Surroundings, colors: Colors, qtbot: QtBot
) -> None:
    window = around._window
    send(window, qtbot, "Write a long story about the sea.")
    qtbot.waitUntil(lambda: window.generation.state is State.ANSWERING, timeout=WAIT_MS)
    change_looks(around, colors, qtbot)
    ask_before_quitting(around, qtbot)
    assert window.generation.state is State.ANSWERING
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    answer = until_answered(window, qtbot)
    assert answer.state == "stopped"
    assert window.transcript.answer is not None
    assert answer.content == window.transcript.answer.source != ""
    free_and_load_again(around, qtbot)
    see_help(around, qtbot)
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)


def ground(window: MainWindow) -> str:
    return window.transcript.grab().toImage().pixelColor(2, 2).name()


def change_looks(around: Surroundings, colors: Colors, qtbot: QtBot) -> None:
    """Colours and sizes change at once, and the answer goes on."""
    window = around._window
    assert ground(window) == colors.window
    around.open_settings()
    page = around.page
    assert page is not None
    qtbot.waitUntil(page.isActiveWindow)
    field = page.rows["theme"].field
    assert isinstance(field, QComboBox)
    for _ in range(field.findData("light" if colors is DARK else "dark") - field.currentIndex()):
        qtbot.keyClick(field, Qt.Key.Key_Down)
    other = LIGHT if colors is DARK else DARK
    assert ground(window) == other.window
    assert page.grab().toImage().pixelColor(2, 2).name() == other.window
    assert window.composer.field.fontInfo().pixelSize() < LARGE_PX
    page.rows["text_px"].field.setValue(LARGE_PX)  # type: ignore[attr-defined]
    assert window.composer.field.fontInfo().pixelSize() == LARGE_PX
    qtbot.waitUntil(lambda: assert_sound_look(page), timeout=WAIT_MS)
    assert window.generation.state is State.ANSWERING
    page.close()


def ask_before_quitting(around: Surroundings, qtbot: QtBot) -> None:
    window, closed = around._window, []
    window.close_requested.connect(lambda: closed.append(True))
    window.close()
    box = around.question.box
    assert box is not None
    assert box.isVisible()
    window.close()
    assert around.question.box is box
    qtbot.keyClick(box, Qt.Key.Key_Escape)
    assert not box.isVisible()
    assert window.isVisible()
    assert closed == []


def free_and_load_again(around: Surroundings, qtbot: QtBot) -> None:
    window, engine, tray = around._window, around._window._engine, around.tray
    pid = engine.worker_pid
    qtbot.waitUntil(tray.unload.isEnabled, timeout=WAIT_MS)
    tray.unload.trigger()
    qtbot.waitUntil(lambda: engine.status.state is PairState.NOT_READY, timeout=WAIT_MS)
    assert window.pair_button.state_text == "not ready"
    around.settings.set("max_tokens", 8)
    send(window, qtbot, "Say hello.")
    answer = until_answered(window, qtbot)
    assert answer.state == "complete"
    assert answer.content
    assert engine.status.state is PairState.READY
    assert engine.worker_pid == pid


def see_help(around: Surroundings, qtbot: QtBot) -> None:
    around.open_log()
    viewer = around.log_viewer
    assert viewer is not None
    text = viewer.text.toPlainText()
    assert "app.engine: engine process: Hello(" in text
    assert "worker: WARNING mirror_sd.loading: How long loading took before is not known" in text
    assert "story about the sea" not in text
    qtbot.waitUntil(lambda: assert_sound_look(viewer), timeout=WAIT_MS)
    viewer.close()
    around.open_about()
    about = dialog_of(About, qtbot)
    assert f"Version {__version__}" in about.facts
    assert f"MLX {version('mlx')}, on " in about.facts
    qtbot.waitUntil(lambda: assert_sound_look(about), timeout=WAIT_MS)
    about.close()
    around._window.activateWindow()
    qtbot.waitUntil(around._window.isActiveWindow)
    qtbot.keyClick(around._window, Qt.Key.Key_F1)
    sheet = dialog_of(KeySheet, qtbot)
    assert "Jump to the end" in [each.text() for each in sheet.findChildren(QLabel)]
    qtbot.waitUntil(lambda: assert_sound_look(sheet), timeout=WAIT_MS)
    sheet.close()


def dialog_of(kind: type[QDialog], qtbot: QtBot) -> Any:
    def found() -> list[QDialog]:
        return [each for each in QApplication.topLevelWidgets() if isinstance(each, kind) and each.isVisible()]

    qtbot.waitUntil(lambda: bool(found()))
    return found()[0]
