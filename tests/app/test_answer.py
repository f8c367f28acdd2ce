"""An answer on screen: text is shown by frames, and ends with its figures."""

from __future__ import annotations

import time

import pytest
from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.chat.answer import AnswerView
from app.chat.code import CodeView
from app.chat.copy_button import CopyButton
from app.chat.prose import ProseView
from app.theme import Theme

MIXED = "First **words**.\n\n```python\nx = 1\n```\n\nThen more.\n\n```\nplain\n```\n"


@pytest.fixture
def answer(qtbot: QtBot, theme: Theme) -> AnswerView:  # noqa: ARG001
    view = AnswerView()
    qtbot.addWidget(view)
    view.resize(600, 400)
    view.show()
    return view


def parts(answer: AnswerView) -> list[str]:
    """The texts of the blocks in their order."""
    widgets = [answer._blocks.itemAt(index).widget() for index in range(answer._blocks.count())]
    return [
        f"code: {widget.text}" if isinstance(widget, CodeView) else widget.toPlainText()
        for widget in widgets
        if isinstance(widget, CodeView | ProseView)
    ]


def test_prose_and_code_stand_in_their_order(answer: AnswerView, qtbot: QtBot) -> None:
    for letter in MIXED:
        answer.append(letter)
    answer.finish("figures")
    qtbot.waitUntil(lambda: not answer._frame.isActive())
    assert parts(answer) == ["First words.", "code: x = 1", "Then more.", "code: plain"]
    assert answer.source == MIXED


def test_text_of_many_steps_is_shown_in_one_frame(answer: AnswerView, qtbot: QtBot) -> None:
    answer.append("First")
    qtbot.waitUntil(lambda: parts(answer) == ["First"])
    prose = answer.findChild(ProseView)
    assert prose is not None
    changes: list[int] = []
    prose.document().contentsChanged.connect(lambda: changes.append(1))
    for _ in range(200):
        answer.append(" word")
    assert changes == []
    qtbot.waitUntil(lambda: parts(answer) == ["First" + " word" * 200])
    assert len(changes) <= 2  # one edit may signal its removal and its insertion


def test_the_frames_stop_when_nothing_is_left_to_show(answer: AnswerView, qtbot: QtBot) -> None:
    answer.append("Some text")
    assert answer._frame.isActive()
    qtbot.waitUntil(lambda: not answer._frame.isActive(), timeout=2000)


def test_slow_frames_make_way(answer: AnswerView, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 0.05, 0.05])
    monkeypatch.setattr("app.chat.answer.time.perf_counter", lambda: next(clock, 1.0))
    answer.append("slow")
    answer._on_frame()  # takes 50 ms: 6 frames are left out
    answer.append(" text")
    for _ in range(6):
        answer._on_frame()
        assert parts(answer) == ["slow"]
    answer._on_frame()
    assert parts(answer) == ["slow text"]


def test_the_end_shows_everything(answer: AnswerView, qtbot: QtBot) -> None:
    answer.append("```\nheld back ``")
    answer.finish("12 tokens", "Interrupted: it broke.")
    qtbot.waitUntil(lambda: not answer.is_showing)
    assert parts(answer) == ["code: held back ``"]
    assert answer.footer.figures.text() == "12 tokens"
    assert answer.footer.problem.text() == "Interrupted: it broke."
    assert not answer._status.isVisible()


def test_what_is_waited_for_is_said_until_text_comes(answer: AnswerView, qtbot: QtBot) -> None:
    answer.set_status("Reading the prompt 50 %")
    assert answer._status.isVisible()
    answer.append("Text")
    qtbot.waitUntil(lambda: not answer._status.isVisible())


def test_copy_gives_the_markdown(answer: AnswerView, qtbot: QtBot) -> None:
    answer.append(MIXED)
    answer.finish("")
    button = next(b for b in answer.findChildren(CopyButton) if "Markdown" in b.accessibleName())
    button.click()
    assert QGuiApplication.clipboard().text() == MIXED
    assert button.has_copied
    assert button.accessibleName() == "Copied"
    qtbot.waitUntil(lambda: not button.has_copied, timeout=3000)


def test_an_answer_stopped_before_its_first_word_has_nothing_to_copy(answer: AnswerView) -> None:
    answer.finish("Stopped before the answer was complete.")
    assert not answer.footer.copy_markdown.isVisible()
    assert answer.footer.figures.isVisible()


def test_thinking_is_folded_away_and_can_be_watched(answer: AnswerView, qtbot: QtBot) -> None:
    answer.set_status("Reading the prompt")
    answer.append_thinking("First ")
    assert answer.thinking is not None
    qtbot.waitUntil(answer.thinking.isVisible)
    assert not answer._status.isVisible()
    assert not answer.thinking.box.isVisible()
    assert answer.thinking.button.accessibleName() == "Thinking"
    answer.thinking.button.click()
    assert answer.thinking.box.isVisible()
    for number in range(200):
        answer.append_thinking(f"thought {number}\n")
    box = answer.thinking.box
    assert box.toPlainText().startswith("First thought 0\nthought 1\n")
    assert box.verticalScrollBar().value() == box.verticalScrollBar().maximum() > 0
    box.verticalScrollBar().setValue(3)
    answer.append_thinking("more\n")
    assert box.verticalScrollBar().value() == 3
    answer.append("The answer.")
    assert answer.thinking.button.accessibleName() == "Thoughts"
    answer.finish("")
    assert answer.source == "The answer."


def test_thousands_of_tokens_of_thinking_with_formulas_hold_up_nothing(answer: AnswerView) -> None:
    tokens = 3000
    piece = r"So \(\frac{a}{b}\) and $$\sum_{i=0}^{n} x_i^2$$ hold. "
    answer.append_thinking("Hm. ")
    assert answer.thinking is not None
    answer.thinking.button.click()
    longest_s = 0.0
    for _ in range(tokens):
        began = time.thread_time()
        answer.append_thinking(piece)
        longest_s = max(longest_s, time.thread_time() - began)
    assert longest_s < 0.1  # measured: 0.002
    began = time.thread_time()
    answer.finish("Stopped.")
    QCoreApplication.processEvents()
    assert time.thread_time() - began < 0.5
    assert answer.thinking.source == "Hm. " + piece * tokens
    assert answer.thinking.box.toPlainText().replace("\n", "") == answer.thinking.source  # an endless line is broken
