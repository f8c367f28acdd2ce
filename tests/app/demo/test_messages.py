"""Messages on the real engine: another answer, more of it, another question, a stop, a file, the chat's options."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.message_bar import MessageBar
from app.main_window import MainWindow
from app.theme import Colors
from core.chats import Message
from helpers.chats_window import open_chat, send, shown, stored, until_answered
from helpers.looks import assert_sound_look
from helpers.window import WAIT_MS

pytestmark = [pytest.mark.slow]
STORY = "Write a long story about the sea."


def limit(window: MainWindow, tokens: int) -> None:
    window.chats.use_settings(msgspec.structs.replace(window.chats.settings, max_tokens=tokens))


def bar_of(window: MainWindow, message: Message) -> MessageBar:
    """The buttons of a message that is shown."""
    bars = [bar for bar in window.transcript.findChildren(MessageBar) if bar.message_id == message.id]
    bars = [bar for bar in bars if bar.isVisible()]
    assert len(bars) == 1
    return bars[0]


def until_asked_and_answered(window: MainWindow, qtbot: QtBot) -> Message:
    qtbot.waitUntil(lambda: not window.chats.current.asking, timeout=WAIT_MS)
    return until_answered(window, qtbot)


# ------------------------------------------------------------------ versions


def test_an_answer_has_versions_goes_on_and_its_question_is_edited(
    window: MainWindow, colors: Colors, qtbot: QtBot
) -> None:
    limit(window, 16)
    send(window, qtbot, STORY)
    first = until_answered(window, qtbot)
    second = flip_through_versions(window, qtbot, first)
    go_on(window, qtbot, second)
    branch(window, qtbot)
    stop(window, qtbot)
    bubble = window.transcript.messages[-2].views[0].parentWidget()
    assert bubble.grab().toImage().pixelColor(8, bubble.height() // 2).name() == colors.card
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)


def flip_through_versions(window: MainWindow, qtbot: QtBot, first: Message) -> Message:
    bar_of(window, first).regenerate.click()
    second = until_asked_and_answered(window, qtbot)
    assert second.versions == (first.id, second.id)
    assert second.content == first.content  # the likeliest words are the same again
    assert bar_of(window, second).place.text() == "2/2"
    bar_of(window, second).before.click()
    qtbot.waitUntil(lambda: window.chats.current.path[-1].id == first.id, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: bar_of(window, first).place.text() == "1/2", timeout=WAIT_MS)
    bar_of(window, first).after.click()
    qtbot.waitUntil(lambda: window.chats.current.path[-1].id == second.id, timeout=WAIT_MS)
    return second


def go_on(window: MainWindow, qtbot: QtBot, answer: Message) -> None:
    """An answer that the limit cut off is continued."""
    assert answer.figures is not None
    assert answer.figures.finish_reason == "length"
    qtbot.waitUntil(lambda: bar_of(window, answer).proceed.isVisible(), timeout=WAIT_MS)
    bar_of(window, answer).proceed.click()
    longer = until_asked_and_answered(window, qtbot)
    assert longer.id == answer.id
    assert longer.content.startswith(answer.content)
    assert longer.figures is not None
    assert (longer.figures.parts, longer.figures.tokens) == (2, 32)
    assert window.transcript.answer is not None
    assert window.transcript.answer.source == longer.content


def branch(window: MainWindow, qtbot: QtBot) -> None:
    """An edited question begins another branch, and the one before can be had again."""
    before = window.chats.current.path
    qtbot.keyClick(window.composer.field, Qt.Key.Key_Up)
    assert window.composer.field.toPlainText() == STORY
    window.composer.set_text("Say hello.")
    qtbot.keyClick(window.composer.field, Qt.Key.Key_Return)
    answer = until_asked_and_answered(window, qtbot)
    question = window.chats.current.path[0]
    assert question.content == "Say hello."
    assert question.versions == (before[0].id, question.id)
    assert answer.content not in (before[1].content, "")
    assert STORY not in shown(window)
    qtbot.waitUntil(lambda: bar_of(window, question).place.text() == "2/2", timeout=WAIT_MS)
    bar_of(window, question).before.click()
    wanted = [(message.id, message.content) for message in before]  # they have other versions now
    qtbot.waitUntil(lambda: [(each.id, each.content) for each in window.chats.current.path] == wanted, timeout=WAIT_MS)
    assert stored(lambda store: store.messages.path(open_chat(window))) == window.chats.current.path
    qtbot.waitUntil(lambda: STORY in shown(window), timeout=WAIT_MS)


def stop(window: MainWindow, qtbot: QtBot) -> None:
    """Esc in mid-answer keeps what is there, and the next question is answered."""
    limit(window, 400)
    send(window, qtbot, "Tell me more.")
    writing = window.chats.current.writing
    assert writing is not None
    qtbot.waitUntil(lambda: len(writing.answering.text) > 20, timeout=WAIT_MS)
    qtbot.keyClick(window.composer.field, Qt.Key.Key_Escape)
    answer = until_answered(window, qtbot)
    assert answer.state == "stopped"
    assert len(answer.content) > 20
    assert window.transcript.answer is not None
    assert "stopped" in window.transcript.answer.footer.figures.text()
    limit(window, 4)
    send(window, qtbot, "Thanks.")
    assert until_answered(window, qtbot).state == "complete"


# ---------------------------------------------------------- files and options


def test_a_file_and_the_options_of_a_chat_reach_the_engine(
    window: MainWindow, colors: Colors, qtbot: QtBot, tmp_path: Path
) -> None:
    limit(window, 16)
    plain = attach(window, qtbot, tmp_path)
    see_dialog(window, colors, qtbot)
    choose(window, prompt="You are a poet who answers in rhymes. " * 4, temperature="1.2", seed="7")
    seven = again(window, qtbot)
    assert tokens_read(seven) > tokens_read(plain) + 20  # the system prompt
    assert again(window, qtbot).content == seven.content != plain.content
    choose(window, seed="8")
    assert again(window, qtbot).content != seven.content
    word = re.findall(r"[A-Za-z]{3,}", seven.content)[3]
    choose(window, seed="7", stop=word)
    assert again(window, qtbot).content == seven.content[: seven.content.index(word)]
    choose(window, seed="7", stop="", max_tokens="5")
    short = again(window, qtbot)
    assert short.figures is not None
    assert short.figures.tokens == 5
    assert seven.content.startswith(short.content)
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)


def attach(window: MainWindow, qtbot: QtBot, folder: Path) -> Message:
    """Ask with a file and without; returns the answer to the question with the file."""
    send(window, qtbot, "Repeat the word.")
    without = until_answered(window, qtbot)
    window.chats.new()
    (folder / "notes.txt").write_text("The word is lighthouse.\n" * 5)
    window.files.attach([folder / "notes.txt"])
    qtbot.waitUntil(lambda: len(window.composer.attachments.files) == 1, timeout=WAIT_MS)
    send(window, qtbot, "Repeat the word.")
    answer = until_answered(window, qtbot)
    assert tokens_read(answer) > tokens_read(without) + 20
    assert window.chats.current.path[0].attachments[0].name == "notes.txt"
    assert "Attached: notes.txt\n\nRepeat the word." in shown(window)
    assert window.composer.attachments.files == ()
    return answer


def see_dialog(window: MainWindow, colors: Colors, qtbot: QtBot) -> None:
    dialog = window.room.open_options()
    qtbot.waitUntil(lambda: assert_sound_look(dialog), timeout=WAIT_MS)
    assert dialog.save.grab().toImage().pixelColor(dialog.save.width() // 2, 4).name() == colors.accent_fill
    dialog.cancel.click()


def choose(window: MainWindow, prompt: str = "", stop: str | None = None, **fields: str) -> None:
    """Save what is named in the dialog; the rest stays as it is."""
    dialog = window.room.open_options()
    if prompt:
        dialog.prompt.setPlainText(prompt)
    if stop is not None:
        dialog.stop.setText(stop)
    for name, text in fields.items():
        dialog.fields[name].setText(text)
    dialog.save.click()
    assert not dialog.isVisible()


def again(window: MainWindow, qtbot: QtBot) -> Message:
    window.room.regenerate()
    return until_asked_and_answered(window, qtbot)


def tokens_read(answer: Message) -> int:
    assert answer.figures is not None
    return answer.figures.prompt_tokens
