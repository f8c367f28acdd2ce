"""The window as a whole, with a stand-in worker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAccessible, QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QPlainTextEdit, QTextBrowser, QWidget
from pytestqt.qtbot import QtBot

from app.engine import PairState
from app.generation import State
from app.main_window import MainWindow
from app.widgets import ElidedLabel
from core.pairs import DEMO_NAME, Pair
from helpers.looks import assert_sound_look
from helpers.window import WAIT_MS, OpenWindow

LONG = " ".join(f"word{number}" for number in range(400))
SLOW = ("--answer", LONG, "--steps-per-second", "20")
Control = Qt.KeyboardModifier.ControlModifier
Shift = Qt.KeyboardModifier.ShiftModifier


def ask(window: MainWindow, qtbot: QtBot, text: str = "Hi") -> None:
    qtbot.keyClicks(window.composer.field, text)
    qtbot.keyClick(window.composer.field, Qt.Key.Key_Return)


def until(qtbot: QtBot, window: MainWindow, *states: State) -> None:
    """Wait for a state of the engine, with no question on its way to it."""
    qtbot.waitUntil(lambda: window.generation.state in states and not window.chats.current.asking, timeout=WAIT_MS)


def ready(window: MainWindow, qtbot: QtBot) -> MainWindow:
    qtbot.waitUntil(lambda: window.pair_button.state_text == "ready", timeout=WAIT_MS)
    window.activateWindow()  # keys reach the shortcuts of the active window only
    qtbot.waitUntil(window.isActiveWindow)
    return window


def shown_text(window: MainWindow) -> str:
    return "\n".join(view.toPlainText() for view in window.transcript.findChildren(QTextBrowser))


def test_a_question_gets_a_streamed_answer_with_figures(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--answer", "Some **bold** words. " * 12, "--steps-per-second", "60"), qtbot)
    ask(window, qtbot, "How?")
    until(qtbot, window, State.ANSWERING)
    until(qtbot, window, State.IDLE)
    assert "How?" in shown_text(window)
    assert "Some bold words." in shown_text(window)
    answer = window.transcript.answer
    assert answer is not None
    assert "tokens per step" in answer.footer.figures.text()
    assert "plain would take" in answer.footer.figures.text()
    assert float(window.panel.speed.text) > 0
    assert window.panel.acceptance.text.endswith("%")
    assert float(window.panel.per_step.text()) > 1
    assert (window.panel.rows["memory"].text, window.panel.rows["free"].text) == ("312 MB", "8.0 GB")
    assert window.panel.rows["context"].text.endswith("of 2,048")
    assert window.verdict.isVisible()
    assert window.verdict.full_text().endswith("plain speed")


class Layouts(QObject):
    """Counts how often a widget of the application is laid out anew."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802
        self.count += event.type() == QEvent.Type.LayoutRequest
        return False


def test_a_window_at_rest_lays_nothing_out(open_window: OpenWindow, qapp: QApplication, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    ask(window, qtbot)
    until(qtbot, window, State.IDLE)
    layouts = Layouts()
    qapp.installEventFilter(layouts)

    def rests() -> bool:
        before = layouts.count
        for _ in range(20):
            qapp.processEvents()
        return layouts.count == before

    qtbot.waitUntil(rests, timeout=WAIT_MS)
    qapp.removeEventFilter(layouts)


def test_the_gauges_move_while_it_answers(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(*SLOW), qtbot)
    ask(window, qtbot)
    qtbot.waitUntil(lambda: window.panel.acceptance.text != "—" and window.panel.speed.text != "—", timeout=WAIT_MS)
    assert window.generation.state is State.ANSWERING
    assert window.panel.rows["first_token"].text.endswith(" s")


def test_plain_mode_shows_no_acceptance_and_no_verdict(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--answer", "word " * 30, "--steps-per-second", "100"), qtbot)
    window.mode_selector.choose("plain")
    ask(window, qtbot)
    until(qtbot, window, State.ANSWERING)
    until(qtbot, window, State.IDLE)
    assert window.panel.acceptance.text == "—"
    assert not window.verdict.isVisible()
    assert float(window.panel.speed.text) > 0


def test_several_turns_in_one_chat(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--echo"), qtbot)
    for text in ("First question", "Second question"):
        ask(window, qtbot, text)
        until(qtbot, window, State.IDLE)
    text = window.transcript.answer.source if window.transcript.answer else ""
    assert text == "user: First question\n\nassistant: user: First question\n\nuser: Second question"


def test_a_killed_worker_is_told_the_text_kept_and_the_next_message_works(
    open_window: OpenWindow, qtbot: QtBot
) -> None:
    window = ready(open_window(*SLOW), qtbot)
    ask(window, qtbot)
    qtbot.waitUntil(lambda: "word5" in shown_text(window), timeout=WAIT_MS)
    pid = window._engine.worker_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    qtbot.waitUntil(window.notice.isVisible, timeout=WAIT_MS)
    assert "SIGKILL" in window.notice.sentence.text()
    assert window.pair_button.state_text == "not ready"
    assert "word5" in shown_text(window)
    assert window.transcript.answer is not None
    assert "SIGKILL" in window.transcript.answer.footer.problem.text()
    ask(window, qtbot, "Go on")
    until(qtbot, window, State.ANSWERING)
    assert not window.notice.isVisible()


def test_try_again_answers_the_question_that_failed(open_window: OpenWindow, qtbot: QtBot, tmp_path: Path) -> None:
    crash = ("--die-after-steps", "2", "--once", str(tmp_path / "crashed"))
    window = ready(open_window("--answer", "one two three four five six seven", *crash), qtbot)
    ask(window, qtbot)
    qtbot.waitUntil(window.notice.isVisible, timeout=WAIT_MS)
    window.notice.retry.click()
    until(qtbot, window, State.IDLE)
    assert "one two three four five six seven" in shown_text(window)


def test_a_pair_that_fails_to_load_says_so_and_details_can_be_had(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = open_window("--fail-load")
    qtbot.waitUntil(window.notice.isVisible, timeout=WAIT_MS)
    assert window.notice.sentence.text() == "The target's file is cut off."
    assert window.notice.hint.text() == "Download it again."
    assert not window.notice.detail.isVisible()
    window.notice.details.click()
    assert window.notice.detail.isVisible()
    assert window.notice.detail.toPlainText() == "byte 1234"
    window.notice.copy.click()
    assert QGuiApplication.clipboard().text() == (
        "UnreadableModel: The target's file is cut off.\nDownload it again.\nbyte 1234"
    )
    assert window.pair_button.state_text == "failed: The target's file is cut off."
    window.notice.dismiss.click()
    assert not window.notice.isVisible()


def test_esc_stops_and_keeps_what_was_written(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(*SLOW), qtbot)
    ask(window, qtbot)
    qtbot.waitUntil(lambda: "word3" in shown_text(window), timeout=WAIT_MS)
    assert window.composer.button.text() == "Stop"
    qtbot.keyClick(window.composer.field, Qt.Key.Key_Escape)
    until(qtbot, window, State.IDLE)
    assert window.transcript.answer is not None
    assert "stopped" in window.transcript.answer.footer.figures.text()
    assert "word3" in shown_text(window)


def test_a_new_chat_begins_empty(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(*SLOW), qtbot)
    ask(window, qtbot)
    until(qtbot, window, State.ANSWERING)
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    until(qtbot, window, State.IDLE)
    qtbot.keyClick(window, Qt.Key.Key_N, Control)
    qtbot.waitUntil(lambda: window.transcript.answer is None)
    assert window.chats.current.path == ()
    assert window.panel.speed.text == "—"


def test_a_suggestion_is_asked_with_one_click(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    window.transcript._welcome.buttons[1].click()
    until(qtbot, window, State.IDLE)
    assert window.chats.current.path[0].content.startswith("Explain in simple words")


def test_keys_reach_the_controls(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    assert window.panel.isVisible()
    qtbot.keyClick(window, Qt.Key.Key_S, Control | Shift)
    qtbot.waitUntil(lambda: not window.panel.isVisible())
    qtbot.keyClick(window, Qt.Key.Key_S, Control | Shift)
    qtbot.waitUntil(window.panel.isVisible)
    window.new_chat.setFocus()
    qtbot.keyClick(window, Qt.Key.Key_L, Control)
    qtbot.waitUntil(window.composer.field.hasFocus)
    ask(window, qtbot)
    until(qtbot, window, State.IDLE)
    qtbot.keyClick(window, Qt.Key.Key_C, Control | Shift)
    assert QGuiApplication.clipboard().text() == "Hello there, this is an answer."
    qtbot.waitUntil(lambda: not window.transcript.answer.footer.copy_markdown.has_copied, timeout=WAIT_MS)  # type: ignore[union-attr]


def test_unload_and_load_from_the_pair_button(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    window.pair_button.unload_requested.emit()
    qtbot.waitUntil(lambda: window.pair_button.state_text == "not ready", timeout=WAIT_MS)
    window.pair_button.load_requested.emit()
    ready(window, qtbot)


def test_stop_loading_from_the_pair_button(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = open_window("--load-s", "30")
    qtbot.waitUntil(lambda: window.pair_button.state_text.startswith("loading 0"), timeout=WAIT_MS)
    window.pair_button.stop_requested.emit()
    qtbot.waitUntil(lambda: window._engine.status.state is PairState.NOT_READY, timeout=WAIT_MS)
    assert not window.notice.isVisible()


def test_the_place_of_the_window_and_the_panel_are_remembered(open_window: OpenWindow, home: Path) -> None:
    first = open_window()
    if first.screen().availableGeometry().height() < 700:
        pytest.skip("the screen is too small")
    first.resize(900, 700)
    first.panel_toggle.click()
    first.close()
    assert (home / "state" / "window.ini").is_file()
    second = open_window()
    assert (second.width(), second.height()) == (900, 700)
    assert not second.panel.isVisible()
    assert not second.panel_toggle.isChecked()


def test_closing_only_asks(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = open_window()
    with qtbot.waitSignal(window.close_requested):
        window.close()
    assert not window.isVisible()


def test_every_control_has_a_name_for_screen_readers(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--answer", "Text\n\n```python\nx\n```\n"), qtbot)
    ask(window, qtbot)
    until(qtbot, window, State.IDLE)
    controls = [
        widget
        for widget in window.findChildren(QWidget)
        if isinstance(widget, QAbstractButton | QComboBox | QPlainTextEdit | QTextBrowser)
    ]
    assert len(controls) > 12
    for widget in controls:
        interface = QAccessible.queryAccessibleInterface(widget)
        assert interface.text(QAccessible.Text.Name), widget


@pytest.mark.parametrize("size", [(900, 600), (1280, 800), (1900, 1100)])
@pytest.mark.parametrize("problem", [False, True])
def test_nothing_is_cut_off_and_nothing_overlaps(
    open_window: OpenWindow, qtbot: QtBot, size: tuple[int, int], problem: bool
) -> None:
    crash = ("--die-after-steps", "25") if problem else ()
    options = ("--answer", "word " * 90, "--steps-per-second", "40", *crash)
    demo = Pair(DEMO_NAME, "/nowhere/target.gguf", "/nowhere/draft")
    window = ready(open_window(*options, choose_pair=lambda: demo), qtbot)
    window.resize(*size)
    ask(window, qtbot)
    until(qtbot, window, State.ANSWERING)
    until(qtbot, window, State.IDLE, State.FAILED)
    qtbot.waitUntil(lambda: window.notice.isVisible() is problem)
    assert (window.width(), window.height()) == size
    labels = [label for label in window.findChildren(ElidedLabel) if label.isVisible()]
    qtbot.waitUntil(lambda: all(label.text() == label.full_text() for label in labels))
    assert_sound_look(window)
