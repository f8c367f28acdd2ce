"""The composer: keys, input methods, and the button that sends and stops."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QMimeData, Qt, QUrl
from PySide6.QtGui import QInputMethodEvent
from pytestqt.qtbot import QtBot

from app.chat import composer as composer_module
from app.chat.composer import Composer
from app.generation import State
from app.theme import Theme
from core.chats.attach import TextFile

Key = Qt.Key


@pytest.fixture
def sent() -> list[str]:
    return []


@pytest.fixture
def composer(qtbot: QtBot, theme: Theme, sent: list[str]) -> Composer:  # noqa: ARG001
    composer = Composer()
    qtbot.addWidget(composer)
    composer.submitted.connect(lambda text, _files: sent.append(text))
    composer.show()
    return composer


def compose(composer: Composer, preedit: str, commit: str = "") -> None:
    """What an input method sends."""
    event = QInputMethodEvent(preedit, [])
    event.setCommitString(commit)
    QCoreApplication.sendEvent(composer.field, event)


@pytest.mark.parametrize("key", [Key.Key_Return, Key.Key_Enter])
def test_enter_sends_and_empties_the_field(composer: Composer, qtbot: QtBot, sent: list[str], key: Key) -> None:
    qtbot.keyClicks(composer.field, "Hello")
    qtbot.keyClick(composer.field, key)
    assert sent == ["Hello"]
    assert composer.field.toPlainText() == ""


def test_shift_enter_breaks_the_line(composer: Composer, qtbot: QtBot, sent: list[str]) -> None:
    one_line = composer.field.height()
    qtbot.keyClicks(composer.field, "a")
    qtbot.keyClick(composer.field, Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(composer.field, "b")
    assert sent == []
    assert composer.field.toPlainText() == "a\nb"
    assert composer.field.height() > one_line


def test_the_arrow_up_asks_for_the_last_message_in_an_empty_field_only(composer: Composer, qtbot: QtBot) -> None:
    asked: list[None] = []
    composer.edit_last_requested.connect(lambda: asked.append(None))
    compose(composer, "に")
    qtbot.keyClick(composer.field, Key.Key_Up)
    compose(composer, "")
    assert asked == []
    qtbot.keyClick(composer.field, Key.Key_Up)
    assert len(asked) == 1
    qtbot.keyClicks(composer.field, "text")
    qtbot.keyClick(composer.field, Key.Key_Up)
    assert len(asked) == 1


def test_files_alone_can_be_sent_and_are_attached_by_paste(composer: Composer, qtbot: QtBot, sent: list[str]) -> None:
    dropped: list[object] = []
    composer.files_dropped.connect(dropped.append)
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile("/tmp/notes.txt"), QUrl("https://example.org/x")])
    composer.field.insertFromMimeData(data)
    assert dropped == [(Path("/tmp/notes.txt"),)]
    assert composer.field.toPlainText() == ""
    composer.attachments.add(TextFile("notes.txt", "text"))
    qtbot.keyClick(composer.field, Key.Key_Return)
    assert sent == [""]
    assert composer.attachments.files == ()


def test_the_hint_gives_way_where_the_composer_is_narrow(composer: Composer) -> None:
    composer.resize(800, composer.height())
    assert composer._hint.text()
    composer.resize(300, composer.height())
    assert composer._hint.text() == ""


def test_enter_that_confirms_a_candidate_does_not_send(composer: Composer, qtbot: QtBot, sent: list[str]) -> None:
    qtbot.keyClicks(composer.field, "Hello ")
    compose(composer, "にほん")
    qtbot.keyClick(composer.field, Key.Key_Return)
    assert sent == []
    compose(composer, "", commit="日本")
    qtbot.keyClick(composer.field, Key.Key_Return)
    assert sent == ["Hello 日本"]


def test_blank_text_is_not_sent(composer: Composer, qtbot: QtBot, sent: list[str]) -> None:
    qtbot.keyClicks(composer.field, "   ")
    qtbot.keyClick(composer.field, Key.Key_Return)
    assert sent == []
    assert not composer.button.isEnabled()


def test_a_long_message_grows_the_field_to_eight_lines(composer: Composer) -> None:
    heights = []
    for lines in (1, 4, 8, 30):
        composer.set_text("\n".join("x" * lines))
        heights.append(composer.field.height())
    assert heights[0] < heights[1] < heights[2] == heights[3]


def test_lines_with_taller_letters_still_fit(composer: Composer, qtbot: QtBot) -> None:
    composer.set_text("one\nmit 日本語 🙂\nthree 🙂🙂")
    qtbot.waitUntil(lambda: composer.field.verticalScrollBar().maximum() == 0)


@pytest.mark.parametrize("state", [State.LOADING, State.PREFILL, State.ANSWERING])
def test_the_button_stops_what_takes_no_message(
    composer: Composer, qtbot: QtBot, sent: list[str], state: State
) -> None:
    composer.set_text("next question")
    composer.set_state(state, accepts_message=False)
    assert composer.button.text() == "Stop"
    qtbot.keyClick(composer.field, Key.Key_Return)
    assert sent == []
    assert composer.field.toPlainText() == "next question"
    with qtbot.waitSignal(composer.stop_requested):
        composer.button.click()
    composer.set_state(State.IDLE, accepts_message=True)
    assert composer.button.text() == "Send"
    composer.button.click()
    assert sent == ["next question"]


def test_a_load_without_a_message_leaves_the_button_to_send_one(composer: Composer, sent: list[str]) -> None:
    composer.set_state(State.LOADING, accepts_message=True)
    composer.set_text("early")
    composer.button.click()
    assert sent == ["early"]


def test_force_is_offered_only_after_a_while(composer: Composer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composer_module, "_FORCE_AFTER_MS", 1)
    composer.set_state(State.STOPPING, accepts_message=False)
    assert composer.button.text() == "Stopping"
    assert not composer.button.isEnabled()
    composer._force.setInterval(1)
    composer._force.start()
    qtbot.waitUntil(lambda: composer.button.text() == "Force stop")
    with qtbot.waitSignal(composer.stop_requested):
        composer.button.click()
    composer.set_state(State.IDLE, accepts_message=True)


def test_the_frame_shows_where_the_focus_is(composer: Composer, qtbot: QtBot) -> None:
    composer.field.setFocus()
    composer.activateWindow()
    qtbot.waitUntil(composer.field.hasFocus)
    assert composer.property("active") is True
