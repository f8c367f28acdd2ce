"""Tokens per step as cells: one for each row that a verification pass could give."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.language import tr
from app.stats.painted import PaintedFigure, Role
from app.theme import colors, scaled

_HEIGHT = 14
_GAP = 3
_EMPTY_CELLS = 16


class StepBar(PaintedFigure):
    """`count` cells, the first `filled` of them coloured, the last one in part."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Role.ProgressBar, tr("Tokens per step"), parent)
        self._filled = 0.0
        self._count = _EMPTY_CELLS
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_value(self, filled: float | None, count: int | None) -> None:
        """Show `filled` of `count` (None: an empty bar)."""
        shown = (filled or 0.0, count or _EMPTY_CELLS)
        if shown != (self._filled, self._count):
            self._filled, self._count = shown
            self.setAccessibleDescription(tr("{filled:.1f} of {count}").format(filled=self._filled, count=self._count))
            self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """One row of cells."""
        return QSize(scaled(80), scaled(_HEIGHT))

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw the cells; the first one is what plain decoding gives."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        width = (self.width() - _GAP * (self._count - 1)) / self._count
        for index in range(self._count):
            cell = QRectF(index * (width + _GAP), 0, width, self.height())
            painter.setBrush(QColor(colors().track))
            painter.drawRoundedRect(cell, 3, 3)
            part = min(max(self._filled - index, 0.0), 1.0)
            if part > 0:
                cell.setWidth(width * part)
                painter.setBrush(QColor(colors().accent if index == 0 else colors().good))
                painter.drawRoundedRect(cell, 3, 3)
