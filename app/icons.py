"""Buttons that show a drawing in place of a word, in the theme's colours and in the size of the text."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from app.theme import colors, scaled
from app.widgets import set_kind

_SIDE_PX, _MOST_PX = 28, 44
_GRID = 16.0
_DRAWN_SHARE = 0.58
_STROKE = 1.4

_LINES: dict[str, tuple[tuple[tuple[float, float], ...], ...]] = {
    "attach": (((8, 2), (8, 14)), ((2, 8), (14, 8))),
    "menu": (((2, 4), (14, 4)), ((2, 8), (14, 8)), ((2, 12), (14, 12))),
    "before": (((10, 3), (5, 8), (10, 13)),),
    "after": (((6, 3), (11, 8), (6, 13)),),
    "up": (((3, 10), (8, 5), (13, 10)),),
    "down": (((3, 6), (8, 11), (13, 6)),),
    "close": (((3.5, 3.5), (12.5, 12.5)), ((12.5, 3.5), (3.5, 12.5))),
    "done": (((2.5, 8.5), (6.5, 12.5), (13.5, 4)),),
    "edit": (((3, 13), (3.6, 10), (11, 2.6), (13.4, 5), (6, 12.4), (3, 13)), ((9.3, 4.3), (11.7, 6.7))),
    "continue": (((2.5, 8), (13, 8)), ((9, 4), (13, 8), (9, 12))),
    "regenerate": (((13.2, 2.4), (13.2, 5.8), (9.8, 5.8)),),
    "text": (((2.5, 3.5), (13.5, 3.5)), ((2.5, 8), (13.5, 8)), ((2.5, 12.5), (8.5, 12.5))),
    "copy": (((3.2, 10.5), (2.2, 10.5), (2.2, 2.2), (10.5, 2.2), (10.5, 3.2)),),
    "chats": (((6, 2.5), (6, 13.5)),),
    "statistics": (((10, 2.5), (10, 13.5)),),
}
"""Each drawing's lines on a grid of 16 by 16."""
_BOXES = {
    "copy": QRectF(5.2, 5.2, 8.6, 8.6),
    "chats": QRectF(1.5, 2.5, 13, 11),
    "statistics": QRectF(1.5, 2.5, 13, 11),
}
_FILLS = {"chats": QRectF(1.5, 2.5, 4.5, 11), "statistics": QRectF(10, 2.5, 4.5, 11)}


class IconButton(QPushButton):
    """`icon` names the drawing; `description` is the tooltip, and the name for screen readers."""

    def __init__(self, icon: str, description: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "icon")
        self._icon = icon
        self.setAutoDefault(False)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setToolTip(description)
        self.setAccessibleName(description)

    @property
    def icon_name(self) -> str:
        """The drawing that shows."""
        return self._icon

    def show_icon(self, icon: str) -> None:
        """Show another drawing."""
        self._icon = icon
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """A square that grows with the text, within reason."""
        side = min(scaled(_SIDE_PX), _MOST_PX)
        return QSize(side, side)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """The same."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw the icon over the button's own dress."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        stands_out = self.isEnabled() and (self.underMouse() or self.isChecked() or self.hasFocus())
        color = QColor(colors().text if stands_out else colors().muted)
        if not self.isEnabled():
            color.setAlphaF(0.45)
        unit = min(self.width(), self.height()) * _DRAWN_SHARE / _GRID
        painter.translate((self.width() - unit * _GRID) / 2, (self.height() - unit * _GRID) / 2)
        painter.scale(unit, unit)
        if self.isCheckable() and self.isChecked() and self._icon in _FILLS:
            painter.fillRect(_FILLS[self._icon], color)
        painter.setPen(QPen(color, _STROKE, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin))
        painter.drawPath(_path(self._icon))


def _path(icon: str) -> QPainterPath:
    path = QPainterPath()
    for line in _LINES[icon]:
        points = [QPointF(x, y) for x, y in line]
        path.moveTo(points[0])
        for point in points[1:]:
            path.lineTo(point)
    if icon in _BOXES:
        path.addRoundedRect(_BOXES[icon], 1.8, 1.8)
    if icon == "regenerate":
        arc = QRectF(2.4, 2.4, 11.2, 11.2)
        path.arcMoveTo(arc, 35)
        path.arcTo(arc, 35, 300)
    return path
