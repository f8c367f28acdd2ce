"""Saved chats open at their end, and what is above is built as the reader goes there."""

from __future__ import annotations

from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from app.chat.answer import AnswerView
from app.chat.bubble import Bubble
from app.chat.entry import Entry
from app.chat.pieces import Code, Prose, pieces
from app.chat.transcript import Transcript

PARAGRAPH = "A paragraph with **some** words that goes on for more than one line of the view, number {}.\n\n"
LONG = "".join(PARAGRAPH.format(number) for number in range(700)) + "The end."


def conversation(turns: int) -> list[Entry]:
    entries = []
    for turn in range(turns):
        entries.append(Entry("user", f"Question {turn}", message_id=2 * turn))
        entries.append(Entry("assistant", PARAGRAPH.format(turn) * 3, figures=f"{turn} tok/s", message_id=2 * turn + 1))
    return entries


def shown_texts(transcript: Transcript) -> list[str]:
    return [view.toPlainText() for message in transcript.messages for view in message.views]  # type: ignore[union-attr]


def rest(qtbot: QtBot, transcript: Transcript) -> None:
    qtbot.waitUntil(lambda: not transcript._more.isActive())


def test_a_saved_chat_shows_its_end(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show(conversation(100))
    rest(qtbot, transcript)
    bar = transcript.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    assert 4 < len(transcript.messages) < 60
    assert not transcript.is_complete
    last = transcript.messages[-1]
    assert isinstance(last, AnswerView)
    assert last is transcript.answer
    assert last.footer.figures.text() == "99 tok/s"
    assert last.message_id == 199
    assert not transcript._welcome.isVisible()


def test_scrolling_up_builds_more_without_a_jump(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show(conversation(60))
    rest(qtbot, transcript)
    bar = transcript.verticalScrollBar()
    seen = set()
    for _ in range(400):
        if bar.value() == 0 and transcript.is_complete:
            break
        bar.setValue(max(bar.value() - 300, 0))
        reader = transcript._place
        assert reader.widget is not None
        before = reader.widget.mapTo(transcript.viewport(), QPoint(0, 0)).y()
        rest(qtbot, transcript)
        assert reader.widget.mapTo(transcript.viewport(), QPoint(0, 0)).y() == before
        seen.add(len(transcript.messages))
    assert transcript.is_complete
    assert len(seen) > 10
    assert [message.source for message in transcript.messages] == [entry.text for entry in conversation(60)]


def test_one_long_answer_is_built_in_pieces_and_reads_in_order(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show([Entry("user", "Q"), Entry("assistant", LONG)])
    rest(qtbot, transcript)
    assert sum(map(len, shown_texts(transcript))) < len(LONG) / 3
    assert shown_texts(transcript)[-1].endswith("The end.")
    transcript.build_all()
    qtbot.waitUntil(lambda: transcript.is_complete)
    lines = "\n".join(shown_texts(transcript)).split("\n")
    numbers = [line.rsplit(" ", 1)[1] for line in lines if "number" in line]
    assert numbers == [f"{number}." for number in range(700)]
    assert transcript.verticalScrollBar().value() == transcript.verticalScrollBar().maximum()


def test_a_long_message_of_the_user_is_built_in_parts(transcript: Transcript, qtbot: QtBot) -> None:
    text = "\n".join(f"line {number}" for number in range(5000))
    transcript.add_user_message(text, 7)
    bubble = transcript.messages[0]
    assert isinstance(bubble, Bubble)
    rest(qtbot, transcript)
    assert bubble.is_waiting
    transcript.build_all()
    qtbot.waitUntil(lambda: transcript.is_complete)
    assert "\n".join(view.toPlainText() for view in bubble.views) == bubble.source == text


def test_thinking_problem_and_figures_are_shown(transcript: Transcript) -> None:
    transcript.show([Entry("assistant", "Text", "Thought", "12 tok/s", "Interrupted: it broke.", 3)])
    answer = transcript.answer
    assert answer is not None
    assert answer.thinking is not None
    assert answer.thinking.button.accessibleName() == "Thoughts"
    answer.thinking.button.click()
    assert answer.thinking.box.toPlainText() == "Thought"
    assert (answer.footer.figures.text(), answer.footer.problem.text()) == ("12 tok/s", "Interrupted: it broke.")


def test_another_chat_takes_the_place_of_the_one_before(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show(conversation(50))
    transcript.show([Entry("user", "Other")])
    rest(qtbot, transcript)
    assert shown_texts(transcript) == ["Other"]
    assert transcript.answer is None
    transcript.show([])
    assert transcript._welcome.isVisible()
    assert transcript.messages == []


def test_growing_above_the_view_does_not_move_what_is_read(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show([Entry("assistant", LONG[:2000], "thought " * 50), Entry("user", "Q"), Entry("assistant", LONG)])
    transcript.build_all()
    qtbot.waitUntil(lambda: transcript.is_complete)
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    reader, first = transcript._place, transcript.messages[0]
    assert reader.widget is not None
    assert isinstance(first, AnswerView)
    assert first.thinking is not None
    before, value = reader.widget.mapTo(transcript.viewport(), QPoint(0, 0)).y(), bar.value()
    first.thinking.button.click()
    qtbot.waitUntil(lambda: bar.value() != value)
    assert reader.widget.mapTo(transcript.viewport(), QPoint(0, 0)).y() == before


def test_pieces_hold_the_whole_text_in_order() -> None:
    text = LONG + "\n\n```python\nx = 1\n\ny = 2\n```\nAfter.\n```\nplain"
    found = pieces(text)
    assert [piece for piece in found if isinstance(piece, Code)] == [
        Code("python", "x = 1\n\ny = 2"),
        Code("", "plain"),
    ]
    prose = [block.source for piece in found if isinstance(piece, Prose) for block in piece.blocks]
    assert "\n\n".join(prose) == LONG + "\n\nAfter."
    assert max(sum(len(b.source) for b in piece.blocks) for piece in found if isinstance(piece, Prose)) < 6000


def test_copy_as_text_takes_what_is_not_built_too(transcript: Transcript, qtbot: QtBot) -> None:
    from PySide6.QtGui import QGuiApplication

    transcript.show([Entry("assistant", "Start **here**.\n\n```c\n\tint x;\n```\n\n" + LONG)])
    rest(qtbot, transcript)
    assert transcript.answer is not None
    transcript.answer.copy_plain()
    copied = QGuiApplication.clipboard().text()
    assert copied.startswith("Start here.\n\n\tint x;\n\nA paragraph with some words")
    assert copied.endswith("The end.")
