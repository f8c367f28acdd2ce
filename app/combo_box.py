"""A choice from a list, with an arrow in the theme's colours."""

from __future__ import annotations

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QComboBox

from app.theme import colors, scaled

_ARROW_RIGHT_PX, _MOST_ARROW_PX = 16, 8


class ComboBox(QComboBox):
    """Changes by the wheel only with the focus: else scrolling past it would change it."""

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The style sheet takes the arrow away, so draw one."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(colors().muted), 1.6, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        side = min(scaled(4), _MOST_ARROW_PX)
        x, y = self.width() - _ARROW_RIGHT_PX, self.height() / 2 + side / 2
        painter.drawPolyline([QPointF(x - side, y - side), QPointF(x, y), QPointF(x + side, y - side)])

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Leave the wheel to the page."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()
