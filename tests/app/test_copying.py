"""Copies of a selection, as plain text and as Markdown that reads the same again."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QTextCursor
from pytestqt.qtbot import QtBot

from app.chat.copying import markdown, plain_text
from app.chat.prose import ProseView
from app.theme import Theme

SAMPLE = """# Title

A paragraph with **bold**, *italic*, `code`, ~~gone~~ and a [link](https://example.org/a)[^1].

1. First
2. Second
   - nested

- [x] done
- [ ] open

> A quote

| Name | Value |
|---|---|
| one | 1 |
| two | 2 |

    indented code
    second line

---

[^1]: A footnote with *text*."""


@pytest.fixture
def view(qtbot: QtBot, theme: Theme) -> ProseView:  # noqa: ARG001
    view = ProseView()
    qtbot.addWidget(view)
    view.resize(600, 10)
    view.show()
    return view


def write(view: ProseView, source: str) -> QTextCursor:
    for block in source.split("\n\n"):
        view.close_open(block)
    view.selectAll()
    return view.textCursor()


def test_a_whole_text_copies_as_the_markdown_that_it_was(view: ProseView) -> None:
    assert markdown(write(view, SAMPLE)) == SAMPLE


def test_what_looks_like_marks_is_escaped(view: ProseView, qtbot: QtBot) -> None:
    copied = markdown(write(view, r"A \*star\*, a \`tick\` and [brackets]"))
    again = ProseView()
    qtbot.addWidget(again)
    write(again, copied)
    assert again.document().toPlainText() == "A *star*, a `tick` and [brackets]"
    assert copied == r"A \*star\*, a \`tick\` and [brackets]"


def test_plain_text_has_no_marks_and_rows_by_tabs(view: ProseView) -> None:
    lines = plain_text(write(view, SAMPLE)).split("\n")
    assert lines[:2] == ["Title", "A paragraph with bold, italic, code, gone and a link1."]
    assert "one\t1" in lines
    assert lines[lines.index("indented code") + 1] == "second line"


def test_a_part_of_a_block_copies_alone(view: ProseView) -> None:
    write(view, "Some **bold words** here 😀 and more")
    view.select(7, 20)
    assert plain_text(view.textCursor()) == "ld words here"
    assert markdown(view.textCursor()) == "**ld words** here"
    view.select(21, 23)  # both halves of the emoji
    assert plain_text(view.textCursor()) == "😀"


def test_the_key_and_the_menu_copy(view: ProseView, qtbot: QtBot) -> None:
    write(view, "Some **bold**")
    qtbot.keyClick(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "Some bold"
    actions = {action.text(): action for action in view.make_menu().actions()}
    actions["Copy as Markdown"].trigger()
    assert QGuiApplication.clipboard().text() == "Some **bold**"
