"""Prose on screen: streamed as written at once, tables, links, nothing loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices, QGuiApplication, QTextCursor, QTextDocument
from pytestqt.qtbot import QtBot

from app.chat.blocks import BlockSplitter, ProseChanged, ProseClosed
from app.chat.links import LinkBubble, open_outside
from app.chat.prose import ProseView
from app.theme import DARK, LIGHT, Theme

SAMPLE = """# Title

A paragraph with **bold**, *italic*, `code`, a [link](https://example.org/a) and ~~strike~~.
Its second line.

1. First
2. Second

   with a paragraph
3. Third
   - nested
   - again

> A quote
> of two lines.

| Name | Value |
|------|------:|
| one  | 1 |
| two  | 22 |

| Next | table |
|---|---|
| a | b |

---

    indented code
    second line

-

End <b>raw</b> &amp; ![picture](https://example.org/p.png).
"""


@pytest.fixture
def view(qtbot: QtBot, theme: Theme) -> ProseView:  # noqa: ARG001
    view = ProseView()
    qtbot.addWidget(view)
    view.resize(600, 10)
    view.show()
    return view


def stream(view: ProseView, text: str, piece_chars: int) -> None:
    splitter = BlockSplitter()
    for start in range(0, len(text), piece_chars):
        for change in splitter.feed(text[start : start + piece_chars]):
            apply(view, change)
    for change in splitter.finish():
        apply(view, change)


def apply(view: ProseView, change: object) -> None:
    if isinstance(change, ProseChanged):
        view.show_open(change.source)
    elif isinstance(change, ProseClosed):
        view.close_open(change.source)


def shape(document: QTextDocument) -> list[tuple[object, ...]]:
    """What a reader sees of each block: its text, its formats, its list or table."""
    result: list[tuple[object, ...]] = []
    block = document.begin()
    while block.isValid():
        form, cursor = block.blockFormat(), QTextCursor(block)
        listed = block.textList()
        runs = []
        iterator = block.begin()
        while not iterator.atEnd():
            fragment = iterator.fragment()
            text = fragment.charFormat()
            runs.append((fragment.text(), text.fontWeight(), text.fontItalic(), text.anchorHref()))
            iterator += 1
        result.append((
            block.text(), form.headingLevel(), form.topMargin(), form.bottomMargin(), form.indent(), form.leftMargin(),
            listed.itemText(block) if listed else None, cursor.currentTable() is not None, tuple(runs),
        ))  # fmt: skip
        block = block.next()
    return result


@pytest.mark.parametrize("piece_chars", [1, 3, 7, 50])
def test_streamed_text_looks_like_text_written_at_once(view: ProseView, qtbot: QtBot, piece_chars: int) -> None:
    whole = ProseView()
    qtbot.addWidget(whole)
    stream(whole, SAMPLE, len(SAMPLE))
    stream(view, SAMPLE, piece_chars)
    assert shape(view.document()) == shape(whole.document())


def test_what_the_sample_looks_like(view: ProseView) -> None:
    stream(view, SAMPLE, 5)
    blocks = shape(view.document())
    texts = [block[0] for block in blocks]
    assert texts[0] == "Title"
    assert texts[1] == "A paragraph with bold, italic, code, a link and strike. Its second line."
    items = {block[0]: block[6] for block in blocks}
    assert [items[text] for text in ("First", "Second", "with a paragraph", "Third")] == ["1.", "2.", None, "3."]
    assert "indented code\u2028second line" in texts
    assert texts[-1] == "End <b>raw</b> & picture."


def test_a_table_has_its_cells_and_no_other_block(view: ProseView) -> None:
    stream(view, "Before\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n| only one |\n\nAfter", 2)
    blocks = shape(view.document())
    assert [block[0] for block in blocks if block[7]] == ["a", "b", "1", "2", "only one", ""]
    outside = [block[0] for block in blocks if not block[7]]
    assert outside == ["Before", "", "After"]  # Qt wants a block before a table; it is a hair high


def test_closed_blocks_are_not_touched_again(view: ProseView) -> None:
    view.close_open("First block")
    changed_at: list[int] = []
    view.document().contentsChange.connect(lambda at, _removed, _added: changed_at.append(at))
    for source in ("Sec", "Second", "Second **bold**"):
        view.show_open(source)
    view.close_open("Second **bold**")
    assert min(changed_at) >= len("First block")
    assert view.document().toPlainText() == "First block\nSecond bold"


def test_undo_keeps_no_copy_of_the_stream(view: ProseView) -> None:
    stream(view, SAMPLE, 10)
    assert not view.document().isUndoAvailable()


def test_height_follows_the_text_and_is_set_only_when_it_changes(view: ProseView, qtbot: QtBot) -> None:
    view.show_open("One line")
    one_line = view.height()
    qtbot.waitUntil(lambda: view.height() > 0)
    view.show_open("One line!")
    assert view.height() == one_line
    view.show_open("One line\nand\n\n" + "words " * 200)
    assert view.height() > 3 * one_line


def test_nothing_that_a_message_names_is_read(view: ProseView, tmp_path: Path) -> None:
    file = tmp_path / "secret.txt"
    file.write_text("secret")
    loaded = view.loadResource(QTextDocument.ResourceType.ImageResource.value, QUrl.fromLocalFile(str(file)))
    assert loaded.isEmpty()
    view.close_open(f"![x](file://{file}) ![y](http://127.0.0.1:9/z.png)")
    assert "img" not in view.document().toHtml()


class _Opener(QObject):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    @Slot(QUrl)
    def open(self, url: QUrl) -> None:
        self.opened.append(url.toString())


@pytest.fixture
def opener() -> Iterator[_Opener]:
    opener = _Opener()
    for scheme in ("https", "file", "smb"):
        QDesktopServices.setUrlHandler(scheme, opener, "open")
    yield opener
    for scheme in ("https", "file", "smb"):
        QDesktopServices.unsetUrlHandler(scheme)


def test_a_link_opens_outside_only_after_a_look_at_its_whole_address(view: ProseView, opener: _Opener) -> None:
    view.close_open("[a](https://example.org/a?b=%20&x=%D7%90)")
    view.anchorClicked.emit(QUrl("https://example.org/a?b=%20&x=א"))
    bubble = view.findChild(LinkBubble)
    assert bubble is not None
    assert opener.opened == []
    assert bubble.address.text().replace("\u200b", "") == "https://example.org/a?b=%20&x=%D7%90"
    bubble.open_button.click()
    assert opener.opened == ["https://example.org/a?b= &x=א"]
    assert not bubble.isVisible()
    assert view.document().toPlainText() == "a"


def test_the_address_can_be_copied_or_left(view: ProseView, opener: _Opener, qtbot: QtBot) -> None:
    view.anchorClicked.emit(QUrl("https://example.org/a"))
    view.findChild(LinkBubble).copy_button.click()
    assert QGuiApplication.clipboard().text() == "https://example.org/a"
    view.anchorClicked.emit(QUrl("https://example.org/b"))
    bubble = view.findChildren(LinkBubble)[-1]
    qtbot.keyClick(bubble.open_button, Qt.Key.Key_Escape)
    assert not bubble.isVisible()
    assert opener.opened == []


def test_addresses_that_are_not_of_the_web_are_never_opened(view: ProseView, opener: _Opener) -> None:
    for address in ("file:///etc/passwd", "smb://host/share", "javascript:alert(1)", "data:text/html,x", "/etc/passwd"):
        open_outside(QUrl(address))
        view.anchorClicked.emit(QUrl(address))
    assert opener.opened == []
    assert view.findChild(LinkBubble) is None


def test_script_and_file_links_of_the_source_are_no_links(view: ProseView) -> None:
    view.close_open("[a](javascript:alert(1)) [b](file:///etc/passwd)")
    assert 'href="' not in view.document().toHtml()


def test_a_new_theme_recolours_what_is_written_and_keeps_it(view: ProseView, theme: Theme) -> None:
    stream(view, SAMPLE, 20)
    view.show_open("still `open`")
    before = view.document().toPlainText()
    assert DARK.inline_code in view.document().toHtml()
    theme.set_scheme("light")
    assert view.document().toPlainText() == before
    assert LIGHT.inline_code in view.document().toHtml()
    assert DARK.inline_code not in view.document().toHtml()
    view.close_open("still `open`.")
    assert view.document().toPlainText() == before + "."
