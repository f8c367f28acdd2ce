"""How the parts of an answer look: block, list, table and text formats, and what they say of the Markdown behind."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextFormat,
    QTextFrameFormat,
    QTextLength,
    QTextListFormat,
    QTextTableFormat,
)

from app.theme import BODY_PX, SMALL_PX, Colors, code_font, scaled

IS_CODE = QTextFormat.Property.UserProperty.value + 1
"""Of text: set in code's font; of a block: it is an indented code block."""
FORMULA_SOURCE = QTextFormat.Property.UserProperty.value + 2
"""Of text: the formula's Markdown, with its marks."""
QUOTE_LEVEL = QTextFormat.Property.UserProperty.value + 3
"""Of a block: how deep in quotes it stands."""
FOOTNOTE_LABEL = QTextFormat.Property.UserProperty.value + 4
"""Of text: the label of a footnote's mark; of a block: the label of the footnote."""
PARAGRAPH_GAP_PX = 10
ITEM_GAP_PX = 4
MOST_LEVELS = 8
"""Quotes and lists nested deeper are shown no further to the right."""
_LINE_HEIGHT_PERCENT = 140.0
_QUOTE_INDENT_PX = 18
_HEADING_PX = {1: BODY_PX + 6, 2: BODY_PX + 4}
_BULLETS = (QTextListFormat.Style.ListDisc, QTextListFormat.Style.ListCircle, QTextListFormat.Style.ListSquare)


class Formats:
    """The formats in one set of colours."""

    def __init__(self, colors: Colors) -> None:
        self.colors = colors

    # ----------------------------------------------------------------- blocks

    def block(self, gap_px: int, quotes: int) -> QTextBlockFormat:
        """A block with room below, `quotes` levels deep in quotes."""
        form = QTextBlockFormat()
        form.setLineHeight(_LINE_HEIGHT_PERCENT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        form.setBottomMargin(gap_px)
        if quotes:
            form.setLeftMargin(min(quotes, MOST_LEVELS) * _QUOTE_INDENT_PX)
            form.setProperty(QUOTE_LEVEL, quotes)
        return form

    def code_block(self, quotes: int) -> QTextBlockFormat:
        """An indented code block."""
        form = self.block(PARAGRAPH_GAP_PX, quotes)
        form.setBackground(QColor(self.colors.inline_code))
        form.setProperty(IS_CODE, True)
        return form

    def formula_block(self, quotes: int) -> QTextBlockFormat:
        """A formula on lines of its own, in the middle."""
        form = self.block(PARAGRAPH_GAP_PX, quotes)
        form.setLineHeight(0, QTextBlockFormat.LineHeightTypes.SingleHeight.value)
        form.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        return form

    def rule(self, quotes: int) -> QTextBlockFormat:
        """A horizontal line."""
        form = self.block(PARAGRAPH_GAP_PX, quotes)
        whole = QTextLength(QTextLength.Type.PercentageLength, 100)
        form.setProperty(QTextFormat.Property.BlockTrailingHorizontalRulerWidth, whole)
        form.setProperty(QTextFormat.Property.BackgroundBrush, QBrush(QColor(self.colors.border)))
        return form

    def list(self, level: int, start: int | None) -> QTextListFormat:
        """The list at a level from 1 on; numbered from `start` on, else with bullets."""
        form = QTextListFormat()
        form.setIndent(min(level, MOST_LEVELS))
        if start is not None:
            form.setStyle(QTextListFormat.Style.ListDecimal)
            form.setStart(start)
        else:
            form.setStyle(_BULLETS[min(level, len(_BULLETS)) - 1])
        return form

    def table(self) -> QTextTableFormat:
        """A table with hairlines."""
        form = QTextTableFormat()
        form.setBorderCollapse(True)
        form.setBorder(1)
        form.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
        form.setBorderBrush(QColor(self.colors.border))
        form.setCellPadding(6)
        form.setTopMargin(2)
        form.setBottomMargin(PARAGRAPH_GAP_PX)
        form.setHeaderRowCount(1)
        return form

    # ------------------------------------------------------------------- text

    def text(self, quoted: bool) -> QTextCharFormat:
        """Running text."""
        form = QTextCharFormat()
        if quoted:
            form.setForeground(QColor(self.colors.muted))
        return form

    def heading(self, level: int, quoted: bool) -> QTextCharFormat:
        """A heading's text."""
        form = self.text(quoted)
        form.setProperty(QTextFormat.Property.FontPixelSize, scaled(_HEADING_PX.get(level, BODY_PX + 1)))
        form.setFontWeight(QFont.Weight.DemiBold)
        return form

    def footnote(self, quoted: bool) -> QTextCharFormat:
        """A footnote's text."""
        form = self.text(quoted)
        form.setProperty(QTextFormat.Property.FontPixelSize, scaled(SMALL_PX))
        return form

    def footnote_mark(self, base: QTextCharFormat, label: str) -> QTextCharFormat:
        """The raised mark of a footnote."""
        form = QTextCharFormat(base)
        form.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignSuperScript)
        form.setForeground(QColor(self.colors.accent))
        form.setProperty(FOOTNOTE_LABEL, label)
        return form

    def code(self, base: QTextCharFormat) -> QTextCharFormat:
        """Code within text."""
        form = QTextCharFormat(base)
        form.setFontFamilies([code_font().family()])
        form.setProperty(QTextFormat.Property.FontPixelSize, code_font().pixelSize())
        form.setBackground(QColor(self.colors.inline_code))
        form.setProperty(IS_CODE, True)
        return form

    def formula_source(self, base: QTextCharFormat, source: str) -> QTextCharFormat:
        """A formula that is shown as it was written."""
        form = QTextCharFormat(base)
        form.setFontFamilies([code_font().family()])
        form.setProperty(QTextFormat.Property.FontPixelSize, code_font().pixelSize())
        form.setForeground(QColor(self.colors.muted))
        form.setProperty(FORMULA_SOURCE, source)
        return form

    def link(self, base: QTextCharFormat, href: str) -> QTextCharFormat:
        """A link that may be opened."""
        form = QTextCharFormat(base)
        form.setAnchor(True)
        form.setAnchorHref(href)
        form.setForeground(QColor(self.colors.accent))
        form.setFontUnderline(True)
        return form


def hair_block() -> QTextBlockFormat:
    """An empty block that must not show as a line."""
    form = QTextBlockFormat()
    form.setLineHeight(1, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
    return form
