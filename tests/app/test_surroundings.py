"""Around the window: tray, notification, the question before quitting, dialogs, announcements, window state."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import surroundings
from app.engine import PairState
from app.generation import State
from app.main_window import MainWindow
from app.surroundings import Surroundings
from app.tray import tray_icon
from core.paths import state_dir
from helpers.window import WAIT_MS

OpenAround = Callable[..., Surroundings]
LONG = " ".join(f"word{number}" for number in range(400))
SLOW = ("--answer", LONG, "--steps-per-second", "20")


def ready(around: Surroundings, qtbot: QtBot) -> MainWindow:
    window = around._window
    qtbot.waitUntil(lambda: window.pair_button.state_text == "ready", timeout=WAIT_MS)
    return window


def answering(around: Surroundings, qtbot: QtBot) -> MainWindow:
    window = ready(around, qtbot)
    window.chats.send("Hi")
    qtbot.waitUntil(lambda: window.generation.state is State.ANSWERING, timeout=WAIT_MS)
    return window


# ------------------------------------------------------------------ quitting


def test_quitting_in_mid_answer_asks_once_and_going_on_keeps_the_answer(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({}, *SLOW)
    window = answering(around, qtbot)
    closed: list[bool] = []
    window.close_requested.connect(lambda: closed.append(True))
    window.close()
    box = around.question.box
    assert box is not None
    assert box.isVisible()
    assert not closed
    window.close()
    assert around.question.box is box
    assert window.isVisible()
    qtbot.keyClick(box, Qt.Key.Key_Escape)
    assert not box.isVisible()
    assert window.generation.state is State.ANSWERING
    window.close()
    next(button for button in box.buttons() if button.text() == "Quit").click()
    assert closed == [True]
    assert not window.isVisible()


@pytest.mark.parametrize("answer", [True, False])
def test_nothing_is_asked_when_idle_or_not_wanted(open_around: OpenAround, qtbot: QtBot, answer: bool) -> None:
    around = open_around({"ask_before_quitting": not answer}, *SLOW)
    window = answering(around, qtbot) if answer else ready(around, qtbot)
    with qtbot.waitSignal(window.close_requested):
        window.close()
    assert around.question.box is None


def test_a_message_that_waits_for_the_pair_is_asked_about_too(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({}, "--load-s", "20")
    around._window.chats.send("Hi")
    around._window.close()
    assert around.question.box is not None
    around.question.box.close()
    qtbot.waitUntil(around._window.isActiveWindow)


# ------------------------------------------------------------------ the tray


def test_without_a_tray_everything_works_and_nothing_is_shown(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({}, "--echo")
    window = ready(around, qtbot)
    if around.tray.icon is not None:
        pytest.skip("this system has a tray")
    around.settings.set("menu_bar", False)
    around.settings.set("menu_bar", True)
    with qtbot.waitSignal(window.generation.answer_ended, timeout=WAIT_MS):
        window.chats.send("Hi")
    assert not around.tray.notify("title", "text")


def test_the_menu_of_the_tray_tells_speed_and_state(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({}, "--answer", LONG, "--steps-per-second", "40")
    answering(around, qtbot)
    tray = around.tray
    qtbot.waitUntil(lambda: "tok/s" in tray.headline.text(), timeout=WAIT_MS)
    assert "Test pair: ready" in tray.headline.text()
    assert not tray.unload.isEnabled()
    around._window.generation.stop()
    qtbot.waitUntil(lambda: tray.headline.text() == "Test pair: ready", timeout=WAIT_MS)
    qtbot.waitUntil(tray.unload.isEnabled, timeout=WAIT_MS)


def test_the_pair_is_unloaded_and_loaded_from_the_tray(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({})
    window, tray = ready(around, qtbot), around.tray
    qtbot.waitUntil(tray.unload.isEnabled, timeout=WAIT_MS)
    tray.unload.trigger()
    qtbot.waitUntil(lambda: window._engine.status.state is PairState.NOT_READY, timeout=WAIT_MS)
    qtbot.waitUntil(tray.load.isEnabled, timeout=WAIT_MS)
    assert not tray.unload.isVisible()
    tray.load.trigger()
    qtbot.waitUntil(tray.unload.isVisible, timeout=WAIT_MS)


def test_the_window_is_hidden_and_shown_from_the_tray(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({})
    ready(around, qtbot)
    tray = around.tray
    assert tray.toggle.text() == "Hide the window"
    tray.toggle.trigger()
    assert not around._window.isVisible()
    assert tray.toggle.text() == "Show the window"
    tray.toggle.trigger()
    assert around._window.isVisible()


def test_quit_in_the_tray_asks_in_a_window_that_can_be_seen(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({}, *SLOW)
    window = answering(around, qtbot)
    around.tray.toggle.trigger()
    around.tray.quit_requested.emit()
    assert window.isVisible()
    assert around.question.box is not None
    assert around.question.box.isVisible()
    around.question.box.close()


@pytest.mark.qt_log_ignore("systemTrayWindowChanged", extend=True)  # the platform of tests has no tray
def test_where_there_is_a_tray_its_icon_follows_setting_and_speed(
    open_around: OpenAround, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.tray.QSystemTrayIcon.isSystemTrayAvailable", lambda: True)
    around = open_around({"menu_bar": False}, "--answer", LONG, "--steps-per-second", "40")
    assert around.tray.icon is None
    around.settings.set("menu_bar", True)
    icon = around.tray.icon
    assert icon is not None
    assert icon.isVisible()
    answering(around, qtbot)
    qtbot.waitUntil(lambda: "tok/s" in icon.toolTip(), timeout=WAIT_MS)
    icon.activated.emit(icon.ActivationReason.Trigger)
    assert around._window.isVisible() == (sys.platform == "darwin")
    around.settings.set("menu_bar", False)
    assert not icon.isVisible()


@pytest.mark.parametrize("text", ["", "7", "96", "128", "1024"])
def test_the_icon_has_the_number_within_it(text: str, qapp: QApplication) -> None:  # noqa: ARG001
    image = tray_icon(text).pixmap(44, 44).toImage()
    white = [
        (x, y)
        for x in range(44)
        for y in range(44)
        if image.pixelColor(x, y).lightness() > 200 and image.pixelColor(x, y).alpha() > 200
    ]
    assert white
    assert min(x for x, _ in white) >= 2
    assert max(x for x, _ in white) <= 41


# -------------------------------------------------------------- notification


@pytest.fixture
def notified(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What the system is asked to show; any answer counts as long."""
    monkeypatch.setattr(surroundings, "_LONG_ANSWER_S", 0.0)
    told: list[tuple[str, str]] = []
    monkeypatch.setattr("app.tray.Tray.notify", lambda _tray, *words: told.append(words) or True)
    return told


def finish_hidden(around: Surroundings, qtbot: QtBot) -> None:
    window = ready(around, qtbot)
    window.hide()
    qtbot.waitUntil(lambda: QApplication.activeWindow() is None)
    with qtbot.waitSignal(window.generation.answer_ended, timeout=WAIT_MS):
        window.chats.send("my secret question")


def test_the_end_of_a_long_answer_is_told_when_the_window_is_not_used(
    open_around: OpenAround, qtbot: QtBot, notified: list[tuple[str, str]]
) -> None:
    finish_hidden(open_around({}, "--answer", "word " * 20), qtbot)
    assert [title for title, _ in notified] == ["The answer is complete"]
    assert "tokens" in notified[0][1]
    assert "word" not in notified[0][1]


def test_nobody_is_told_who_sees_it_or_does_not_want_it(
    open_around: OpenAround, qtbot: QtBot, notified: list[tuple[str, str]]
) -> None:
    around = open_around({}, "--answer", "word")
    window = ready(around, qtbot)
    with qtbot.waitSignal(window.generation.answer_ended, timeout=WAIT_MS):
        window.chats.send("Hi")
    around.settings.set("notify", False)
    qtbot.waitUntil(lambda: not window.generation.busy, timeout=WAIT_MS)
    finish_hidden(around, qtbot)
    assert notified == []


def test_the_end_of_a_short_answer_is_not_told(
    open_around: OpenAround, qtbot: QtBot, notified: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "_LONG_ANSWER_S", 20.0)
    finish_hidden(open_around({}, "--answer", "word"), qtbot)
    assert notified == []


# ------------------------------------------------------- what is told, and where


def test_sentences_are_announced_while_an_answer_is_written(
    open_around: OpenAround, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(surroundings, "announce", lambda _widget, sentence: said.append(sentence))
    around = open_around({}, "--answer", "One **sentence**. And another one. The rest")
    window = ready(around, qtbot)
    QAccessible.setActive(True)
    try:
        with qtbot.waitSignal(window.generation.answer_ended, timeout=WAIT_MS):
            window.chats.send("Hi")
    finally:
        QAccessible.setActive(False)
    assert said == ["One sentence.", "And another one.", "The rest", "The answer is complete."]


def test_a_bad_settings_file_is_told_in_the_notice(open_around: OpenAround, file: Path) -> None:
    around = open_around({})
    file.write_text("not JSON")
    around.settings.look_again()
    assert "damaged" in around._window.notice.sentence.text()
    assert list(file.parent.glob("*damaged*"))


def test_a_window_from_a_screen_that_is_gone_comes_back_onto_one_that_exists(open_around: OpenAround) -> None:
    first = open_around({})._window
    first.move(5000, 4000)
    QSettings(str(state_dir() / "window.ini"), QSettings.Format.IniFormat).setValue("geometry", first.saveGeometry())
    second = open_around()._window
    assert second.screen().availableGeometry().intersects(second.frameGeometry())
    assert second.screen().availableGeometry().contains(second.frameGeometry().topLeft())


def test_a_window_that_filled_the_screen_fills_it_again(open_around: OpenAround, qtbot: QtBot) -> None:
    first = ready(open_around({}), qtbot)
    first.showMaximized()
    qtbot.waitUntil(first.isMaximized)
    first.close()
    assert open_around()._window.isMaximized()


def test_no_record_of_a_chat_is_in_the_log(
    open_around: OpenAround, qtbot: QtBot, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    window = ready(open_around({}, "--answer", "my secret answer"), qtbot)
    with qtbot.waitSignal(window.generation.answer_ended, timeout=WAIT_MS):
        window.chats.send("my secret question")
    assert "secret" not in caplog.text
