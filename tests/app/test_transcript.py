"""The transcript follows its end only while the reader is there."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QFrame
from pytestqt.qtbot import QtBot

from app.chat.code import CodeView
from app.chat.transcript import Transcript
from app.chat.welcome import SUGGESTIONS
from app.theme import body_font


def fill(transcript: Transcript, qtbot: QtBot, paragraphs: int = 60) -> None:
    answer = transcript.begin_answer()
    answer.append("A paragraph of some words.\n\n" * paragraphs)
    answer.finish("figures")
    qtbot.waitUntil(lambda: not answer._frame.isActive() and transcript.verticalScrollBar().maximum() > 500)


def at_end(transcript: Transcript) -> bool:
    bar = transcript.verticalScrollBar()
    return bar.value() == bar.maximum()


def test_the_welcome_is_read_from_its_beginning(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.resize(300, 150)
    bar = transcript.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    assert bar.value() == 0
    bar.setValue(bar.maximum())
    assert not transcript.jump.isVisible()
    bar.setValue(0)
    assert not transcript.jump.isVisible()


def test_it_follows_growing_text_at_the_end(transcript: Transcript, qtbot: QtBot) -> None:
    fill(transcript, qtbot)
    qtbot.waitUntil(lambda: at_end(transcript))
    before = transcript.verticalScrollBar().maximum()
    fill(transcript, qtbot)
    qtbot.waitUntil(lambda: transcript.verticalScrollBar().maximum() > before and at_end(transcript))
    assert not transcript.jump.isVisible()


def test_it_stays_where_the_reader_is(transcript: Transcript, qtbot: QtBot) -> None:
    fill(transcript, qtbot)
    qtbot.waitUntil(lambda: at_end(transcript))
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    where, before = bar.value(), bar.maximum()
    assert transcript.jump.isVisible()
    fill(transcript, qtbot)
    qtbot.waitUntil(lambda: bar.maximum() > before)
    assert bar.value() == where
    transcript.jump.click()
    assert at_end(transcript)
    assert not transcript.jump.isVisible()


def test_streaming_changes_no_height_above_the_last_block(transcript: Transcript, qtbot: QtBot) -> None:
    fill(transcript, qtbot)
    qtbot.waitUntil(lambda: at_end(transcript))
    first = transcript._column.itemAt(0).widget()
    heights = {first.height()}
    answer = transcript.begin_answer()
    for index in range(30):
        answer.append(f"word {index} **bold** \n")
        answer.show_frame()
        heights.add(first.height())
        QCoreApplication.processEvents()
        heights.add(first.height())
    answer.finish("")
    assert len(heights) == 1


def test_a_message_of_the_user_goes_to_the_end(transcript: Transcript, qtbot: QtBot) -> None:
    fill(transcript, qtbot)
    transcript.verticalScrollBar().setValue(0)
    transcript.add_user_message("Hello")
    qtbot.waitUntil(lambda: at_end(transcript))


def test_users_messages_stand_on_the_right_as_wide_as_their_text(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.add_user_message("Hi")
    transcript.add_user_message("many words " * 60)
    short, long = (transcript._column.itemAt(index).widget() for index in (0, 1))
    qtbot.waitUntil(lambda: long.height() > 3 * short.height())
    for bubble in (short, long):
        frame = bubble.findChild(QFrame)
        qtbot.waitUntil(lambda frame=frame, bubble=bubble: frame.geometry().right() == bubble.rect().right())
    assert short.findChild(QFrame).width() < 80
    assert long.findChild(QFrame).width() < 0.9 * long.width()


def test_the_header_of_long_code_stays_at_the_top_of_the_view(transcript: Transcript, qtbot: QtBot) -> None:
    answer = transcript.begin_answer()
    answer.append("```python\n" + "x = 1\n" * 200 + "```\n" + "After.\n\n" * 40)
    answer.finish("")
    qtbot.waitUntil(lambda: transcript.verticalScrollBar().maximum() > 2000)
    code = transcript.findChild(CodeView)
    assert code is not None
    for value in (700, 1500, 300):
        transcript.verticalScrollBar().setValue(value)
        assert code._header.mapTo(transcript.viewport(), code._header.rect().topLeft()).y() == 0
    transcript.verticalScrollBar().setValue(0)
    assert code._header.y() == 0


def test_an_empty_transcript_offers_prompts(transcript: Transcript, qtbot: QtBot) -> None:
    assert transcript._welcome.isVisible()
    with qtbot.waitSignal(transcript.suggestion_chosen) as chosen:
        transcript._welcome.buttons[0].click()
    assert chosen.args == [SUGGESTIONS[0]]
    transcript.add_user_message("Hi")
    assert not transcript._welcome.isVisible()
    transcript.begin_answer().finish("")
    transcript.clear()
    assert transcript._welcome.isVisible()
    assert transcript._column.count() == 0
    assert transcript.answer is None


def test_code_that_comes_to_an_answer_that_is_gone_does_no_harm(transcript: Transcript) -> None:
    answer = transcript.begin_answer()
    answer.append("```python\nx = 1\n```\n")
    transcript.clear()
    answer.show_frame()  # the frame comes before the deletion
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    QCoreApplication.sendEvent(transcript.content, QEvent(QEvent.Type.LayoutRequest))


def test_two_lines_above_the_end_it_still_follows_and_further_up_not(transcript: Transcript, qtbot: QtBot) -> None:
    bar = transcript.verticalScrollBar()
    for lines, follows in ((1, True), (4, False)):
        fill(transcript, qtbot)
        transcript.scroll_to_end()
        bar.setValue(bar.maximum() - lines * QFontMetrics(body_font()).lineSpacing())
        before = bar.maximum()
        fill(transcript, qtbot)
        qtbot.waitUntil(lambda before=before: bar.maximum() > before)
        assert at_end(transcript) is follows
