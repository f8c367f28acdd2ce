"""Find in the open chat."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, Qt
from pytestqt.qtbot import QtBot

from app.chat.code import CodeView
from app.chat.entry import Entry
from app.chat.find import FindBar
from app.chat.transcript import Transcript

FILLER = "Nothing to see in this paragraph, which only takes room on the screen.\n\n" * 120
TABLE = "| a |\n|---|\n| needle |"


@pytest.fixture
def bar(transcript: Transcript) -> FindBar:
    return FindBar(transcript)


def search(qtbot: QtBot, bar: FindBar, query: str) -> None:
    bar.open_bar()
    bar.field.setText(query)
    qtbot.waitUntil(lambda: bar._transcript.is_complete and not bar._refresh.isActive())


def marked(bar: FindBar) -> list[str]:
    return [
        selection.cursor.selectedText() for searched in bar._searched for selection in searched.view.extraSelections()
    ]


def current_y(bar: FindBar) -> int:
    """Where the chosen hit lies in the view."""
    assert bar._current is not None
    top = bar._range(*bar._current)[0]
    return bar._transcript.content.mapTo(bar._transcript.viewport(), QPoint(0, top)).y()


def test_hits_in_every_kind_of_text_are_counted_marked_and_shown(
    transcript: Transcript, bar: FindBar, qtbot: QtBot
) -> None:
    transcript.show([
        Entry("user", "Where is the needle?"),
        Entry("assistant", f"A **nee**dle.\n\n{FILLER}\n\n{TABLE}\n\n```python\nneedle = 1\n```\n\n{FILLER}"),
        Entry("user", "More Needles"),
    ])  # fmt: skip
    search(qtbot, bar, "needle")
    assert bar.total == 5
    assert marked(bar) == ["needle", "needle", "needle", "needle", "Needle"]
    positions = []
    for _ in range(5):
        bar.go_to_next()
        assert 0 <= current_y(bar) < transcript.viewport().height()
        positions.append(bar.count.text())
    assert sorted(positions) == [f"{number} of 5" for number in range(1, 6)]
    first = positions.index("1 of 5")
    assert [*positions[first:], *positions[:first]] == [f"{number} of 5" for number in range(1, 6)]


def test_it_finds_what_is_not_built_yet(transcript: Transcript, bar: FindBar, qtbot: QtBot) -> None:
    transcript.show([Entry("user", "the first needle"), *[Entry("assistant", FILLER)] * 12])
    assert not transcript.is_complete
    search(qtbot, bar, "needle")
    qtbot.waitUntil(lambda: bar.total == 1)
    bar.go_to_next()
    assert bar.count.text() == "1 of 1"
    assert 0 <= current_y(bar) < transcript.viewport().height()


def test_a_hit_in_folded_thinking_unfolds_it(transcript: Transcript, bar: FindBar, qtbot: QtBot) -> None:
    thought = "idle words\n" * 200 + "the needle\n" + "idle words\n" * 200
    transcript.show([Entry("assistant", FILLER, thinking=thought), Entry("user", "Q")])
    answer = transcript.messages[0]
    search(qtbot, bar, "needle")
    qtbot.waitUntil(lambda: bar.total == 1)
    bar.go_to_next()
    thinking = transcript.messages[0].thinking  # type: ignore[union-attr]
    assert answer is not None
    assert thinking is not None
    assert thinking.box.isVisible()
    assert thinking.box.textCursor().block().text() == "the needle"
    assert 0 <= current_y(bar) < transcript.viewport().height()


def test_keys_go_through_the_hits_and_close_the_bar(transcript: Transcript, bar: FindBar, qtbot: QtBot) -> None:
    transcript.show([Entry("user", "aa bb aa bb aa")])
    search(qtbot, bar, "aa")
    assert bar.count.text() == "1 of 3"
    qtbot.keyClick(bar.field, Qt.Key.Key_Return)
    assert bar.count.text() == "2 of 3"
    qtbot.keyClick(bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClick(bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert bar.count.text() == "3 of 3"
    qtbot.keyClick(bar.field, Qt.Key.Key_Escape)
    assert not bar.isVisible()
    assert marked(bar) == []


def test_text_that_streams_in_is_found_too(transcript: Transcript, bar: FindBar, qtbot: QtBot) -> None:
    answer = transcript.begin_answer()
    answer.append("one needle, ")
    search(qtbot, bar, "needle")
    assert bar.count.text() == "Nothing found" or bar.total == 1
    answer.append("another needle\n\n```\nand a needle in code")
    answer.finish("")
    qtbot.waitUntil(lambda: bar.total == 3)
    assert transcript.findChild(CodeView) is not None


def test_nothing_found_says_so_and_a_cleared_chat_is_forgotten(
    transcript: Transcript, bar: FindBar, qtbot: QtBot
) -> None:
    transcript.show([Entry("user", "words")])
    search(qtbot, bar, "missing")
    assert bar.count.text() == "Nothing found"
    search(qtbot, bar, "words")
    assert bar.total == 1
    transcript.clear()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    bar.go_to_next()
    assert bar.total == 0
    assert bar.count.text() == "Nothing found"
