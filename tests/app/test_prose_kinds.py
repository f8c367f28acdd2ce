"""What prose can hold beyond plain paragraphs: tasks, footnotes, all scripts, and things too large to lay out."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QTextBlockFormat, QTextCharFormat
from pytestqt.qtbot import QtBot

from app.chat.blocks import LONG_LINE_CHARS, BlockSplitter, ProseClosed
from app.chat.markdown import MOST_CELLS
from app.chat.prose import ProseView
from app.theme import Theme


@pytest.fixture
def view(qtbot: QtBot, theme: Theme) -> ProseView:  # noqa: ARG001
    view = ProseView()
    qtbot.addWidget(view)
    view.resize(600, 10)
    view.show()
    return view


def write(view: ProseView, text: str) -> list[str]:
    """Write a text block by block; returns the lines that show."""
    splitter = BlockSplitter()
    closed = [change for change in [*splitter.feed(text), *splitter.finish()] if isinstance(change, ProseClosed)]
    view.write(closed, 600)
    return view.document().toPlainText().split("\n")


def x_of(view: ProseView, line: int, position: int) -> float:
    block = view.document().findBlockByNumber(line)
    x = block.layout().lineAt(0).cursorToX(position)
    return float(x[0] if isinstance(x, tuple) else x)


def test_tasks_have_boxes(view: ProseView) -> None:
    assert write(view, "- [x] done\n- [ ] open\n- [link] text") == ["done", "open", "[link] text"]
    blocks = [view.document().findBlockByNumber(number).blockFormat().marker() for number in range(3)]
    kinds = QTextBlockFormat.MarkerType
    assert blocks == [kinds.Checked, kinds.Unchecked, kinds.NoMarker]


def test_footnotes_have_raised_marks_and_their_text(view: ProseView) -> None:
    lines = write(view, "Said[^1] and[^note].\n\n[^1]: The *first*.\n[^note]: The second.")
    assert lines == ["Said1 and1note.".replace("1note", "note"), "1 The first.", "note The second."]
    iterator = view.document().firstBlock().begin()
    iterator += 1
    mark = iterator.fragment()
    assert mark.text() == "1"
    assert mark.charFormat().verticalAlignment() == QTextCharFormat.VerticalAlignment.AlignSuperScript


def test_right_to_left_paragraphs_begin_on_the_right(view: ProseView) -> None:
    write(view, "שלום עולם\n\nHello\n\n- פריט\n\nمرحبا بالعالم")
    assert x_of(view, 0, 0) > 550
    assert x_of(view, 1, 0) < 50
    assert x_of(view, 2, 0) > 450
    assert x_of(view, 3, 0) > 550


def test_text_without_spaces_wraps(view: ProseView) -> None:
    write(view, "中文字符" * 100)
    assert view.document().firstBlock().layout().lineCount() > 5
    assert view.document().idealWidth() <= 600


def test_an_endless_line_is_cut_between_sentences_without_a_gap(view: ProseView) -> None:
    sentence = "A sentence with **bold words** and `code. in it`. "
    lines = write(view, sentence * 100)
    assert len(lines) > 2
    assert max(map(len, lines)) <= LONG_LINE_CHARS
    assert all(line.startswith("A sentence") and "**" not in line for line in lines)
    assert " ".join(line.strip() for line in lines) == ("A sentence with bold words and code. in it. " * 100).strip()
    margins = [view.document().findBlockByNumber(n).blockFormat().bottomMargin() for n in range(len(lines))]
    assert set(margins[:-1]) == {0}
    assert margins[-1] > 0


def test_a_long_table_goes_on_under_its_header() -> None:
    splitter = BlockSplitter()
    table = "| a | b |\n|---|---|\n" + "| one | two |\n" * 400
    closed = [change for change in [*splitter.feed(table), *splitter.finish()] if isinstance(change, ProseClosed)]
    assert len(closed) > 2
    assert all(block.source.startswith("| a | b |\n|---|---|\n| one") for block in closed)
    assert sum(block.source.count("| one |") for block in closed) == 400


def test_a_table_of_very_many_cells_shows_as_it_was_written(view: ProseView) -> None:
    row = "|" + "x|" * 120
    table = "\n".join([row, "|" + "-|" * 120, *[row] * (MOST_CELLS // 120 + 1)])
    view.close_open(table)
    assert view.document().toPlainText() == table
    assert view.textCursor().currentTable() is None


def test_pictures_show_their_description_and_link_only_to_the_web(view: ProseView) -> None:
    assert write(view, "![a](https://e.org/a.png) ![b](file:///b.png) ![c](data:image/png;base64,xx)")[0].startswith(
        "a "
    )
    html = view.document().toHtml()
    assert 'href="https://e.org/a.png"' in html
    assert html.count("href=") == 1
    assert "<img" not in html
