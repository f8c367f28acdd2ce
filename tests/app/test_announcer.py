"""Answers for screen readers: whole sentences, as soon as they are whole, without Markdown's signs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from app.announcer import Announcer, Sentences, announce


def spoken(text: str, piece: int = 1) -> list[str]:
    sentences = Sentences()
    found = [each for at in range(0, len(text), piece) for each in sentences.feed(text[at : at + piece])]
    return found + sentences.finish()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("He said “no.” Then he left.", ["He said “no.”", "Then he left."]),
        ("It costs 3.14 today.", ["It costs 3.14 today."]),
        ("# Title\n\nA **bold** `word`.\n", ["Title", "A bold word."]),
        ("1. First\n2. Second\n", ["1. First", "2. Second"]),
        ("See:\n\n```python\nx = 1. + 2\n```\nDone.", ["See:", "Code.", "Done."]),
        ("これは文です。次の文！", ["これは文です。", "次の文！"]),
        ("Wait ... and\n---\nsee", ["Wait ...", "and", "see"]),
        ("", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert spoken(text) == sentences
    assert spoken(text, piece=1000) == sentences


@given(text=st.text("ab .!\n`*1。", max_size=60), piece=st.integers(1, 7))
def test_how_a_text_comes_in_pieces_changes_nothing(text: str, piece: int) -> None:
    assert spoken(text, piece) == spoken(text, 1)


@pytest.fixture
def screen_reader(qapp: QApplication) -> Iterator[None]:  # noqa: ARG001
    QAccessible.setActive(True)
    yield
    QAccessible.setActive(False)


@pytest.mark.usefixtures("screen_reader")
def test_sentences_are_said_as_they_become_whole_and_the_end_too() -> None:
    said: list[str] = []
    announcer = Announcer(said.append)
    announcer.begin()
    announcer.add("One sentence. And an")
    assert said == ["One sentence."]
    announcer.add("other")
    announcer.end("The answer is complete.")
    assert said == ["One sentence.", "And another", "The answer is complete."]


def test_without_a_screen_reader_nothing_is_said() -> None:
    if QAccessible.isActive():
        pytest.skip("a screen reader runs")
    said: list[str] = []
    announcer = Announcer(said.append)
    announcer.add("One sentence. ")
    announcer.end("The end.")
    assert said == []


@pytest.mark.usefixtures("screen_reader")
def test_an_announcement_reaches_qt(qtbot: QtBot) -> None:
    widget = QLabel("here")
    qtbot.addWidget(widget)
    announce(widget, "One sentence.")
