"""Writes Markdown into a text document: markdown-it's tokens become blocks, lists and tables at a cursor.

Qt's own ways in are not used: `setMarkdown` adds an empty block to tables, and `insertHtml` drops the format of the
first block. Raw HTML in the source stays text; images become links, since nothing is fetched for a message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFormat,
    QTextLength,
    QTextList,
    QTextListFormat,
    QTextTableFormat,
)

from app.theme import Colors, code_font, scaled

_LINE_HEIGHT_PERCENT = 140.0
_PARAGRAPH_GAP_PX = 10
_ITEM_GAP_PX = 4
_QUOTE_INDENT_PX = 18
_HEADING_PX = {1: 20, 2: 18}
_SMALL_HEADING_PX = 15
_BULLETS = (QTextListFormat.Style.ListDisc, QTextListFormat.Style.ListCircle, QTextListFormat.Style.ListSquare)
_LINE_BREAK = "\u2028"

_parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


class MarkdownWriter:
    """Writes whole blocks of Markdown at `cursor`, which stands in an empty block at the end of its document."""

    def __init__(self, cursor: QTextCursor, colors: Colors) -> None:
        self._cursor = cursor
        self._colors = colors
        self._lists: list[QTextListFormat] = []
        self._list_objects: list[QTextList | None] = []
        self._item_begins = False
        self._quotes = 0
        self.block_is_free = True
        """Whether the cursor stands in an empty block that nothing has been written to."""

    def write(self, source: str) -> None:
        """Append the blocks of `source`."""
        tokens = _parser.parse(source)
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
                self._begin_block(self._block_format(_ITEM_GAP_PX if token.hidden else _PARAGRAPH_GAP_PX))
                self._inline(tokens[at + 1], self._text_format())
                return at + 3
            case "bullet_list_open" | "ordered_list_open":
                self._begin_list(token)
            case "bullet_list_close" | "ordered_list_close":
                self._end_list()
            case "list_item_open":
                self._item_begins = True
            case "list_item_close":
                if self._item_begins:  # an empty item
                    self._begin_block(self._block_format(_ITEM_GAP_PX))
            case "blockquote_open":
                self._quotes += 1
            case "blockquote_close":
                self._quotes -= 1
            case "fence" | "code_block":
                self._code(token.content)
            case "hr":
                self._rule()
            case "table_open":
                return self._table(tokens, at)
        return at + 1

    def _heading(self, level: int, inline: Token) -> None:
        form = self._block_format(8)
        form.setHeadingLevel(level)
        form.setTopMargin(0 if self._cursor.position() == 0 else 12)
        self._begin_block(form)
        text = self._text_format()
        text.setProperty(QTextFormat.Property.FontPixelSize, scaled(_HEADING_PX.get(level, _SMALL_HEADING_PX)))
        text.setFontWeight(QFont.Weight.DemiBold)
        self._inline(inline, text)

    def _code(self, content: str) -> None:
        form = self._block_format(_PARAGRAPH_GAP_PX)
        form.setBackground(QColor(self._colors.inline_code))
        self._begin_block(form)
        self._cursor.insertText(content.rstrip("\n").replace("\n", _LINE_BREAK), self._code_format(self._text_format()))

    def _rule(self) -> None:
        form = self._block_format(_PARAGRAPH_GAP_PX)
        form.setProperty(
            QTextFormat.Property.BlockTrailingHorizontalRulerWidth,
            QTextLength(QTextLength.Type.PercentageLength, 100),
        )
        form.setProperty(QTextFormat.Property.BackgroundBrush, QBrush(QColor(self._colors.border)))
        self._begin_block(form)

    def _begin_list(self, token: Token) -> None:
        form = QTextListFormat()
        form.setIndent(len(self._lists) + 1)
        if token.type == "ordered_list_open":
            form.setStyle(QTextListFormat.Style.ListDecimal)
            form.setStart(int(token.attrs.get("start", 1)))
        else:
            form.setStyle(_BULLETS[min(len(self._lists), len(_BULLETS) - 1)])
        self._lists.append(form)
        self._list_objects.append(None)

    def _end_list(self) -> None:
        self._lists.pop()
        self._list_objects.pop()
        if not self._lists:
            form = self._cursor.blockFormat()
            form.setBottomMargin(_PARAGRAPH_GAP_PX)
            self._cursor.setBlockFormat(form)

    def _table(self, tokens: Sequence[Token], at: int) -> int:
        end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
        rows = [i for i in range(at, end) if tokens[i].type == "tr_open"]
        cells = [
            [i for i in range(start, end) if tokens[i].type in ("th_open", "td_open")][: _columns(tokens, rows[0])]
            for start in rows
        ]
        # The table stands between two blocks; an empty one before it must not show as a line.
        self._begin_block(_hair_format())
        table = self._cursor.insertTable(len(rows), len(cells[0]), self._table_format())
        for row, starts in enumerate(cells):
            for column, start in enumerate(starts):
                self._cell(table.cellAt(row, column).firstCursorPosition(), tokens[start], tokens[start + 1])
        self._cursor.movePosition(QTextCursor.MoveOperation.End)
        self._cursor.setBlockFormat(_hair_format())
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
        text = self._text_format()
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
            elif child.type == "code_inline":
                self._cursor.insertText(child.content, self._code_format(formats[-1]))
            elif child.type == "image":
                source = str(child.attrs.get("src", ""))
                self._cursor.insertText(child.content or source, self._link_format(formats[-1], source))
            else:
                text = {"softbreak": " ", "hardbreak": _LINE_BREAK}.get(child.type, child.content)
                self._cursor.insertText(text, formats[-1])

    # ---------------------------------------------------------------- formats

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
            form.setIndent(len(self._lists))
            self._cursor.setBlockFormat(form)

    def _add_to_list(self) -> None:
        listed = self._list_objects[-1]
        if listed is None:
            self._list_objects[-1] = self._cursor.createList(self._lists[-1])
        else:
            listed.add(self._cursor.block())

    def _block_format(self, gap_px: int) -> QTextBlockFormat:
        form = QTextBlockFormat()
        form.setLineHeight(_LINE_HEIGHT_PERCENT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        form.setBottomMargin(gap_px)
        form.setLeftMargin(self._quotes * _QUOTE_INDENT_PX)
        return form

    def _text_format(self) -> QTextCharFormat:
        form = QTextCharFormat()
        if self._quotes:
            form.setForeground(QColor(self._colors.muted))
        return form

    def _code_format(self, base: QTextCharFormat) -> QTextCharFormat:
        form = QTextCharFormat(base)
        form.setFontFamilies([code_font().family()])
        form.setProperty(QTextFormat.Property.FontPixelSize, code_font().pixelSize())
        form.setBackground(QColor(self._colors.inline_code))
        return form

    def _link_format(self, base: QTextCharFormat, href: str) -> QTextCharFormat:
        form = QTextCharFormat(base)
        form.setAnchor(True)
        form.setAnchorHref(href)
        form.setForeground(QColor(self._colors.accent))
        form.setFontUnderline(True)
        return form

    def _table_format(self) -> QTextTableFormat:
        form = QTextTableFormat()
        form.setBorderCollapse(True)
        form.setBorder(1)
        form.setBorderBrush(QColor(self._colors.border))
        form.setCellPadding(6)
        form.setTopMargin(2)
        form.setBottomMargin(_PARAGRAPH_GAP_PX)
        form.setHeaderRowCount(1)
        return form


def _hair_format() -> QTextBlockFormat:
    form = QTextBlockFormat()
    form.setLineHeight(1, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
    return form


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
