"""Writes Markdown into a text document: markdown-it's tokens become blocks, lists and tables at a cursor.

Qt's own ways in are not used: `setMarkdown` adds an empty block to tables, and `insertHtml` drops the format of the
first block. Raw HTML in the source stays text; of images the description is shown, since nothing is fetched for a
message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextList,
    QTextListFormat,
)

from app.chat.formats import (
    FOOTNOTE_LABEL,
    ITEM_GAP_PX,
    MOST_LEVELS,
    PARAGRAPH_GAP_PX,
    Formats,
    hair_block,
)
from app.chat.syntax import FOOTNOTE, FOOTNOTE_MARK, FORMULAS, is_openable, parse
from app.theme import Colors

MOST_CELLS = 500
"""A table with more cells is shown as it was written: to lay it out would hold up the window."""
_LINE_BREAK = "\u2028"
_TASKS = {
    "[ ] ": QTextBlockFormat.MarkerType.Unchecked,
    "[x] ": QTextBlockFormat.MarkerType.Checked,
    "[X] ": QTextBlockFormat.MarkerType.Checked,
}


@dataclass(frozen=True)
class WrittenFormula:
    """A formula's source in the document, to be replaced by its picture."""

    cursor: QTextCursor
    """Selects the source; follows what happens before it."""
    latex: str
    display: bool


class MarkdownWriter:
    """Writes whole blocks of Markdown at `cursor`, which stands in an empty block at the end of its document."""

    def __init__(self, cursor: QTextCursor, colors: Colors) -> None:
        self._cursor = cursor
        self._formats = Formats(colors)
        self._source_lines: list[str] = []
        self._lists: list[QTextListFormat] = []
        self._list_objects: list[QTextList | None] = []
        self._item_begins = False
        self._quotes = 0
        self.block_is_free = True
        """Whether the cursor stands in an empty block that nothing has been written to."""
        self.formulas: list[WrittenFormula] = []
        """In the order in which they were written."""

    def write(self, source: str) -> None:
        """Append the blocks of `source`."""
        self._source_lines = source.split("\n")
        tokens = parse(source)
        at = 0
        while at < len(tokens):
            at = self._write_block(tokens, at)

    # ----------------------------------------------------------------- blocks

    def _write_block(self, tokens: Sequence[Token], at: int) -> int:
        """Write the token at `at`; returns the index of the next one to write."""
        token = tokens[at]
        match token.type:
            case "heading_open":
                self._heading(int(token.tag[1]), tokens[at + 1])
                return at + 3
            case "paragraph_open":
                self._paragraph(token, tokens[at + 1])
                return at + 3
            case "bullet_list_open" | "ordered_list_open":
                self._begin_list(token)
            case "bullet_list_close" | "ordered_list_close":
                self._end_list()
            case "list_item_open":
                self._item_begins = True
            case "list_item_close":
                if self._item_begins:  # an empty item
                    self._begin_block(self._block_format(ITEM_GAP_PX))
            case "blockquote_open":
                self._quotes += 1
            case "blockquote_close":
                self._quotes -= 1
            case "fence" | "code_block":
                self._code(token.content)
            case "hr":
                self._begin_block(self._formats.rule(self._quotes))
            case "math_block":
                self._formula_block(token)
            case "table_open":
                return self._table(tokens, at)
        return at + 1

    def _heading(self, level: int, inline: Token) -> None:
        form = self._block_format(8)
        form.setHeadingLevel(level)
        form.setTopMargin(0 if self._cursor.position() == 0 else 12)
        self._begin_block(form)
        self._inline(inline, self._formats.heading(level, bool(self._quotes)))

    def _paragraph(self, token: Token, inline: Token) -> None:
        form = self._block_format(ITEM_GAP_PX if token.hidden else PARAGRAPH_GAP_PX)
        text = self._formats.text(bool(self._quotes))
        footnote = token.meta.get(FOOTNOTE)
        if footnote is not None:
            form.setProperty(FOOTNOTE_LABEL, footnote)
            form.setBottomMargin(ITEM_GAP_PX)
            text = self._formats.footnote(bool(self._quotes))
        first = inline.children[0] if self._item_begins and inline.children else None
        task = _TASKS.get(first.content[:4]) if first is not None and first.type == "text" else None
        if first is not None and task is not None:
            form.setMarker(task)
            first.content = first.content[4:]
        self._begin_block(form)
        if footnote is not None:
            self._cursor.insertText(footnote, self._formats.footnote_mark(text, footnote))
            self._cursor.insertText(" ", text)
        self._inline(inline, text)

    def _formula_block(self, token: Token) -> None:
        self._begin_block(self._formats.formula_block(self._quotes))
        self._formula(token, self._formats.text(bool(self._quotes)))

    def _code(self, content: str) -> None:
        self._begin_block(self._formats.code_block(self._quotes))
        form = self._formats.code(self._formats.text(bool(self._quotes)))
        self._cursor.insertText(content.rstrip("\n").replace("\n", _LINE_BREAK), form)

    def _begin_list(self, token: Token) -> None:
        start = int(token.attrs.get("start", 1)) if token.type == "ordered_list_open" else None
        self._lists.append(self._formats.list(len(self._lists) + 1, start))
        self._list_objects.append(None)

    def _end_list(self) -> None:
        self._lists.pop()
        self._list_objects.pop()
        if not self._lists:
            form = self._cursor.blockFormat()
            form.setBottomMargin(PARAGRAPH_GAP_PX)
            self._cursor.setBlockFormat(form)

    def _table(self, tokens: Sequence[Token], at: int) -> int:
        end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
        rows = [i for i in range(at, end) if tokens[i].type == "tr_open"]
        columns = _columns(tokens, rows[0])
        if len(rows) * columns > MOST_CELLS:
            first, last = tokens[at].map or [0, 0]
            self._code("\n".join(self._source_lines[first:last]))
            return end + 1
        cells = [[i for i in range(start, end) if tokens[i].type in ("th_open", "td_open")][:columns] for start in rows]
        # The table stands between two blocks; an empty one before it must not show as a line.
        self._begin_block(hair_block())
        table = self._cursor.insertTable(len(rows), columns, self._formats.table())
        for row, starts in enumerate(cells):
            for column, start in enumerate(starts):
                self._cell(table.cellAt(row, column).firstCursorPosition(), tokens[start], tokens[start + 1])
        self._cursor.movePosition(QTextCursor.MoveOperation.End)
        self._cursor.setBlockFormat(hair_block())
        self.block_is_free = True
        return end + 1

    def _cell(self, cursor: QTextCursor, cell: Token, inline: Token) -> None:
        form = QTextBlockFormat()
        side = str(cell.attrs.get("style", ""))
        if "right" in side:
            form.setAlignment(Qt.AlignmentFlag.AlignRight)
        elif "center" in side:
            form.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        cursor.setBlockFormat(form)
        text = self._formats.text(bool(self._quotes))
        if cell.type == "th_open":
            text.setFontWeight(QFont.Weight.DemiBold)
        outer, self._cursor = self._cursor, cursor
        self._inline(inline, text)
        self._cursor = outer

    # ---------------------------------------------------------------- inlines

    def _inline(self, token: Token, form: QTextCharFormat) -> None:
        formats = [form]
        for child in token.children or ():
            if child.type in _CHANGES:
                changed = QTextCharFormat(formats[-1])
                _CHANGES[child.type](changed)
                formats.append(changed)
            elif child.type == "link_open":
                formats.append(self._link_format(formats[-1], str(child.attrs.get("href", ""))))
            elif child.type.endswith("_close"):
                formats.pop()
            else:
                self._inline_leaf(child, formats[-1])

    def _inline_leaf(self, token: Token, form: QTextCharFormat) -> None:
        if token.type in FORMULAS:
            self._formula(token, form)
        elif token.type == "code_inline":
            self._cursor.insertText(token.content, self._formats.code(form))
        elif token.type == FOOTNOTE_MARK:
            self._cursor.insertText(token.content, self._formats.footnote_mark(form, token.content))
        elif token.type == "image":
            source = str(token.attrs.get("src", ""))
            self._cursor.insertText(token.content or source, self._link_format(form, source))
        else:
            text = {"softbreak": " ", "hardbreak": _LINE_BREAK}.get(token.type, token.content)
            self._cursor.insertText(text, form)

    def _link_format(self, base: QTextCharFormat, href: str) -> QTextCharFormat:
        return self._formats.link(base, href) if is_openable(href) else base

    def _formula(self, token: Token, form: QTextCharFormat) -> None:
        """Its source, for now. A picture takes its place once there is one."""
        latex = token.content.strip()
        closing = {"\\(": "\\)", "\\[": "\\]"}.get(token.markup, token.markup)
        written = f"{token.markup}{latex}{closing}"
        begin = self._cursor.position()
        self._cursor.insertText(written.replace("\n", " "), self._formats.formula_source(form, written))
        selection = QTextCursor(self._cursor)
        selection.setKeepPositionOnInsert(True)
        selection.setPosition(begin)
        selection.setPosition(self._cursor.position(), QTextCursor.MoveMode.KeepAnchor)
        self.formulas.append(WrittenFormula(selection, latex, FORMULAS[token.type]))

    # ----------------------------------------------------------------- helpers

    def _begin_block(self, form: QTextBlockFormat) -> None:
        if self.block_is_free:
            self._cursor.setBlockFormat(form)
            self._cursor.setBlockCharFormat(QTextCharFormat())
        else:
            self._cursor.insertBlock(form, QTextCharFormat())
        self.block_is_free = False
        if self._item_begins:
            self._item_begins = False
            self._add_to_list()
        elif self._lists:
            form.setIndent(min(len(self._lists), MOST_LEVELS))
            self._cursor.setBlockFormat(form)

    def _add_to_list(self) -> None:
        listed = self._list_objects[-1]
        if listed is None:
            self._list_objects[-1] = self._cursor.createList(self._lists[-1])
        else:
            listed.add(self._cursor.block())

    def _block_format(self, gap_px: int) -> QTextBlockFormat:
        return self._formats.block(gap_px, self._quotes)


def _columns(tokens: Sequence[Token], row: int) -> int:
    count = 0
    while tokens[row].type != "tr_close":
        count += tokens[row].type in ("th_open", "td_open")
        row += 1
    return count


_CHANGES: dict[str, Callable[[QTextCharFormat], None]] = {
    "strong_open": lambda form: form.setFontWeight(QFont.Weight.Bold),
    "em_open": lambda form: form.setFontItalic(True),
    "s_open": lambda form: form.setFontStrikeOut(True),
}
