"""What can be done with the text of a real answer: colours of its tokens, copies, find, the way back to its end."""

from __future__ import annotations

from html import escape

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QToolTip
from pytestqt.qtbot import QtBot

from app.chat.answer import AnswerView
from app.chat.code import CodeView
from app.chat.token_words import TokenOrigin, origins
from app.main_window import MainWindow
from app.theme import Colors
from core.protocol import Step
from helpers.chats_window import send, until_answered
from helpers.looks import assert_sound_look
from helpers.window import WAIT_MS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.qt_log_ignore("This plugin does not support raise", extend=True),  # of the card, on no screen
]
Control, Shift = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
QUESTION = "Write a Python function that adds the numbers of a list."
LINES = "\n".join(f"Line {number}" for number in range(24))


def test_the_text_of_an_answer_is_coloured_copied_and_found(window: MainWindow, colors: Colors, qtbot: QtBot) -> None:
    window.chats.use_settings(msgspec.structs.replace(window.chats.settings, max_tokens=96))
    window.mode_selector.choose("gpu")
    steps: list[Step] = []
    window.generation.stepped.connect(steps.append)
    qtbot.keyClick(window, Qt.Key.Key_T, Control | Shift)
    window.composer.set_text(f"{LINES}\n\n{QUESTION}")
    send(window, qtbot, "")
    content = until_answered(window, qtbot).content
    answer = window.transcript.answer
    assert answer is not None
    assert answer.source == content
    see_tokens(answer, colors, qtbot, [token for step in steps for token in origins(step)])
    qtbot.keyClick(window, Qt.Key.Key_T, Control | Shift)
    copy(window, answer, qtbot)
    find(window, content, qtbot)
    jump(window, qtbot)
    window.transcript.verticalScrollBar().setValue(0)  # the header of a code block that is cut off lies over the code
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)


def see_tokens(answer: AnswerView, colors: Colors, qtbot: QtBot, judged: list[TokenOrigin]) -> None:
    """Each token has the scheme's colour of its origin, and its card the words of its step."""
    assert answer.tokens is not None
    text = answer.tokens.text
    qtbot.waitUntil(lambda: len(text._starts) == len(judged), timeout=WAIT_MS)
    assert {"plain", "draft", "correction"} <= {token.origin for token in judged}
    tints = {"draft": colors.good, "correction": colors.warn, "bonus": colors.accent}
    for token, start in zip(judged, text._starts, strict=True):
        if token.origin in tints and token.text.strip(" ") and "\n" not in token.text:
            cursor = text.textCursor()
            cursor.setPosition(start + 1)
            assert cursor.charFormat().background().color().name() == tints[token.origin]
    wrong = next(token for token in judged if token.rejected)
    cursor = text.textCursor()
    cursor.setPosition(text._starts[judged.index(wrong)] - 1)
    text.setTextCursor(cursor)
    qtbot.keyClick(text, Qt.Key.Key_Right)
    assert wrong.card()[1].startswith("The draft had said “")
    assert text.accessibleDescription() == ". ".join(wrong.card())
    assert QToolTip.text() == "<br>".join([f"<b>{escape(wrong.card()[0])}</b>", *map(escape, wrong.card()[1:])])
    QToolTip.hideText()


def copy(window: MainWindow, answer: AnswerView, qtbot: QtBot) -> None:
    clipboard = QGuiApplication.clipboard()
    qtbot.keyClick(window, Qt.Key.Key_C, Control | Shift)
    assert clipboard.text() == answer.source
    assert "```python" in answer.source
    answer.footer.copy_plain.click()
    plain = clipboard.text()
    assert "```" not in plain
    code = next(view for view in answer.views if isinstance(view, CodeView))
    assert code.text.rstrip("\n") in plain
    code._copy.click()
    assert clipboard.text().rstrip("\n") == code.text.rstrip("\n")


def find(window: MainWindow, content: str, qtbot: QtBot) -> None:
    bar = window.room.find_bar
    qtbot.keyClick(window, Qt.Key.Key_F, Control)
    qtbot.waitUntil(bar.field.hasFocus)
    qtbot.keyClicks(bar.field, "numbers")
    wanted = (content + QUESTION).lower().count("numbers")
    qtbot.waitUntil(lambda: bar.total == wanted, timeout=WAIT_MS)
    places = set()
    for _ in range(wanted):
        qtbot.keyClick(bar.field, Qt.Key.Key_Return)
        places.add(bar.count.text())
    assert places == {f"{number} of {wanted}" for number in range(1, wanted + 1)}
    qtbot.keyClick(bar.field, Qt.Key.Key_Escape)
    assert not bar.isVisible()


def jump(window: MainWindow, qtbot: QtBot) -> None:
    """Who reads above stays there while an answer is written below, and gets to its end with one click."""
    transcript = window.transcript
    bar = transcript.verticalScrollBar()
    send(window, qtbot, "Explain it in simple words.")
    bar.setValue(0)
    assert transcript.jump.isVisible()
    before = bar.maximum()
    until_answered(window, qtbot)
    qtbot.waitUntil(lambda: bar.maximum() > before, timeout=WAIT_MS)
    assert bar.value() == 0
    assert transcript.jump.isVisible()
    qtbot.mouseClick(transcript.jump, Qt.MouseButton.LeftButton)
    assert bar.value() == bar.maximum()
    assert not transcript.jump.isVisible()
