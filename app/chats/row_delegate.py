"""Draws a row of the list of chats: heading, title, what was found, and whether it is being answered."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.chats.list_model import Role
from app.language import tr
from app.theme import SMALL_PX, Colors, colors, scaled, sized
from core.chats import ChatSummary, Piece

_SIDE = 10
_ABOVE = 7
_HEADING_ABOVE = 10
_DOT = 8
_TITLE_LENGTH = 200
_BEFORE = "title before"
Index = QModelIndex | QPersistentModelIndex


class RowDelegate(QStyledItemDelegate):
    """Heights follow the font, so that any size of text fits."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """The heading, the title, the snippet."""
        height = option.fontMetrics.height() + 2 * _ABOVE + self._heading_height(option, index)
        if index.data(Role.SNIPPET):
            height += QFontMetrics(_small(option)).height() + 2
        return QSize(0, height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one row."""
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        chosen = colors()
        area = QRect(option.rect)
        heading = self._heading_height(option, index)
        if heading:
            self._draw_heading(painter, option, area, index, chosen)
        area.setTop(area.top() + heading)
        state = option.state
        fill = _fill(state, chosen)
        if fill:
            painter.setBrush(QColor(fill))
            has_focus = bool(state & QStyle.StateFlag.State_HasFocus)
            painter.setPen(QColor(chosen.accent) if has_focus else Qt.PenStyle.NoPen)
            painter.drawRoundedRect(QRectF(area).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        line = area.adjusted(_SIDE, _ABOVE, -_SIDE, 0)
        line.setHeight(option.fontMetrics.height())
        line.setRight(line.right() - self._draw_marks(painter, line, index, chosen))
        _draw_pieces(painter, line, option.font, index.data(Role.TITLE), QColor(chosen.text), chosen)
        if snippet := index.data(Role.SNIPPET):
            small = _small(option)
            below = area.adjusted(_SIDE, 0, -_SIDE, 0)
            below.setTop(line.bottom() + 3)
            below.setHeight(QFontMetrics(small).height())
            _draw_pieces(painter, below, small, snippet, QColor(chosen.muted), chosen)
        painter.restore()

    def createEditor(  # noqa: N802
        self,
        parent: QWidget,
        option: QStyleOptionViewItem,  # noqa: ARG002
        index: Index,
    ) -> QWidget:
        """A field for the title."""
        field = QLineEdit(index.data(Qt.ItemDataRole.EditRole), parent)
        field.setProperty(_BEFORE, field.text())
        field.setAccessibleName(tr("Title of the chat"))
        field.setPlaceholderText(tr("Automatic title"))
        field.setMaxLength(_TITLE_LENGTH)
        field.setProperty("kind", "title-editor")
        return field

    def setEditorData(self, editor: QWidget, index: Index) -> None:  # noqa: N802
        """Qt asks with every change of the list; the title that is being typed stays."""

    def setModelData(self, editor: QLineEdit, model: QAbstractItemModel, index: Index) -> None:  # type: ignore[override]  # noqa: N802
        """Only what was typed: the chat may have another title by now."""
        if editor.text() != editor.property(_BEFORE):
            model.setData(index, editor.text())

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """In the place of the title."""
        area = QRect(option.rect)
        area.setTop(area.top() + self._heading_height(option, index))
        area.setHeight(option.fontMetrics.height() + 2 * _ABOVE)
        editor.setGeometry(area)

    def _heading_height(self, option: QStyleOptionViewItem, index: Index) -> int:
        return QFontMetrics(_small(option)).height() + _HEADING_ABOVE + 4 if index.data(Role.GROUP) else 0

    def _draw_heading(
        self, painter: QPainter, option: QStyleOptionViewItem, area: QRect, index: Index, chosen: Colors
    ) -> None:
        painter.setFont(_small(option))
        painter.setPen(QColor(chosen.muted))
        place = area.adjusted(_SIDE, _HEADING_ABOVE, -_SIDE, 0)
        painter.drawText(place, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft, index.data(Role.GROUP))

    def _draw_marks(self, painter: QPainter, line: QRect, index: Index, chosen: Colors) -> int:
        """A dot while the chat is being answered, a ring while that waits; returns the width."""
        activity = index.data(Role.ACTIVITY)
        if not activity:
            return 0
        painter.setPen(QColor(chosen.accent))
        painter.setBrush(QColor(chosen.accent) if activity == "writing" else Qt.BrushStyle.NoBrush)
        middle, dot = line.center().y() + 1, scaled(_DOT)
        painter.drawEllipse(QRectF(line.right() - dot, middle - dot / 2, dot, dot))
        return dot + 6


def _small(option: QStyleOptionViewItem) -> QFont:
    font: QFont = option.font
    return sized(font, max(round(font.pixelSize() * 0.86), 1) if font.pixelSize() > 0 else SMALL_PX)


def _fill(state: QStyle.StateFlag, chosen: Colors) -> str:
    if state & QStyle.StateFlag.State_Selected:
        return chosen.hover
    return chosen.card if state & QStyle.StateFlag.State_MouseOver else ""


def _draw_pieces(
    painter: QPainter, place: QRect, font: QFont, pieces: Sequence[Piece], color: QColor, chosen: Colors
) -> None:
    """One line of text, what was found in bold; it begins late enough that the first find shows."""
    bold = QFont(font)
    bold.setBold(True)
    left = place.left()
    texts = [(" ".join(piece.text.split("\n")), piece.found) for piece in _cut(pieces, font, place.width())]
    for number, (text, found) in enumerate(texts):
        metrics = QFontMetrics(bold if found else font)
        room = place.right() - left + 1
        if room <= 0:
            return
        is_last = number == len(texts) - 1
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
        painter.setFont(bold if found else font)
        painter.setPen(QColor(chosen.accent) if found else color)
        painter.drawText(QRect(left, place.top(), room, place.height()), Qt.AlignmentFlag.AlignVCenter, shown)
        if shown != text and not is_last:
            return
        left += metrics.horizontalAdvance(text)


def _cut(pieces: Sequence[Piece], font: QFont, width: int) -> Sequence[Piece]:
    """The pieces without the beginning, where it would leave no room for what was found."""
    if len(pieces) < 2 or pieces[0].found:
        return pieces
    metrics = QFontMetrics(font)
    if metrics.horizontalAdvance(pieces[0].text) <= width * 0.5:
        return pieces
    return (Piece(metrics.elidedText(pieces[0].text, Qt.TextElideMode.ElideLeft, width // 2), False), *pieces[1:])


def chat_of(index: Index) -> ChatSummary:
    """The chat of a row."""
    chat: ChatSummary = index.data(Role.CHAT)
    return chat
