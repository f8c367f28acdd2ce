"""The statistics follow the open chat, and show a kept answer that is chosen."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.answer import AnswerView
from app.main_window import MainWindow
from core.chats import ChatStore, Figures
from helpers.chats_window import SLOW, open_chat, ready, send, stored, until_answered, until_open
from helpers.window import WAIT_MS, OpenWindow

OLD = Figures(tokens=11, steps=5, accepted_per_step=2.0, proposed=20, accepted=5, tokens_per_second=7.5, decode_s=1.3)
NEW = Figures(
    tokens=31, steps=10, accepted_per_step=3.0, proposed=40, accepted=20, tokens_per_second=44.5, decode_s=0.7
)


def two_answers(store: ChatStore) -> int:
    chat, above = store.create().id, None
    for figures in (OLD, NEW):
        question = store.messages.add_user(chat, above, "Question")
        above = store.messages.begin_answer(chat, question.id).id
        store.messages.finish(above, "Answer.", figures=figures)
    return chat


def line_of(window: MainWindow, number: int) -> AnswerView:
    return [message for message in window.transcript.messages if isinstance(message, AnswerView)][number]


def test_the_line_of_an_older_answer_shows_its_figures_in_the_statistics(open_window: OpenWindow, qtbot: QtBot) -> None:
    chat = stored(two_answers)
    window = ready(open_window("--echo"), qtbot)
    until_open(window, qtbot, chat)
    assert window.panel.speed.text == "44.5"
    qtbot.waitUntil(lambda: window.transcript.is_complete and line_of(window, 0).footer.figures.isVisible())
    qtbot.mouseClick(line_of(window, 0).footer.figures, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.panel.speed.text == "7.5")
    assert window.panel.of_answer.text() == "Saved answer"
    qtbot.keyClick(line_of(window, 1).footer.figures, Qt.Key.Key_Return)
    assert window.panel.speed.text == "44.5"
    send(window, qtbot, "More")
    until_answered(window, qtbot)
    assert window.panel.of_answer.text() == "Answer"
    live = window.panel.speed.text
    qtbot.mouseClick(line_of(window, 0).footer.figures, Qt.MouseButton.LeftButton)
    assert window.panel.speed.text == "7.5"
    qtbot.mouseClick(line_of(window, 2).footer.figures, Qt.MouseButton.LeftButton)
    assert (window.panel.speed.text, window.panel.of_answer.text()) == (live, "Answer")  # its steps are known


def test_the_statistics_are_of_the_open_chat_while_another_is_answered(open_window: OpenWindow, qtbot: QtBot) -> None:
    other = stored(two_answers)
    window = ready(open_window(*SLOW), qtbot)
    send(window, qtbot, "Long")
    first = open_chat(window)
    live = window.figures.shown
    qtbot.waitUntil(lambda: len(live.record.steps) > 3, timeout=WAIT_MS)
    until_open(window, qtbot, other)
    assert window.panel.speed.text == "44.5"
    assert window.figures.shown.figures("chat").answers == 2
    before = len(live.record.steps)
    qtbot.waitUntil(lambda: len(live.record.steps) > before + 3, timeout=WAIT_MS)
    assert window.panel.speed.text == "44.5"
    assert not window.figures.shown.record.steps
    until_open(window, qtbot, first)
    assert window.figures.shown is live
    assert window.panel.of_answer.text() == "Answer"
    before = len(live.record.steps)
    qtbot.waitUntil(lambda: len(live.record.steps) > before + 3, timeout=WAIT_MS)
    assert window.panel.overlap._record is live.record
    window.chats.stop()
    until_answered(window, qtbot)
    assert window.figures.shown.figures("chat").answers == 1


def test_an_answer_that_waited_in_another_chat_has_its_figures_there(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--answer", "word " * 20, "--steps-per-second", "40"), qtbot)
    send(window, qtbot, "First")
    window.chats.new()
    send(window, qtbot, "Second")
    second = open_chat(window)
    window.chats.new()
    assert window.panel.speed.text == "—"
    qtbot.waitUntil(lambda: not window.generation.busy, timeout=WAIT_MS)
    assert window.panel.speed.text == "—"
    assert window.figures.shown.figures("chat").answers == 0
    until_open(window, qtbot, second)
    assert window.figures.shown.figures("chat").answers == 1
    assert window.panel.speed.text != "—"
