"""A choice from a list, with an arrow in the theme's colours."""

from __future__ import annotations

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QComboBox

from app.theme import colors

_ARROW_RIGHT_PX = 16


class ComboBox(QComboBox):
    """Changes by the wheel only with the focus: else scrolling past it would change it."""

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The style sheet takes the arrow away, so draw one."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(colors().muted), 1.6, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        x, y = self.width() - _ARROW_RIGHT_PX, self.height() / 2 + 2
        painter.drawPolyline([QPointF(x - 4, y - 4), QPointF(x, y), QPointF(x + 4, y - 4)])

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Leave the wheel to the page."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()
