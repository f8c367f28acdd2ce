"""A meter: how full something is."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.stats.painted import PaintedFigure, Role
from app.theme import colors, scaled

_HEIGHT = 6
_NEARLY_FULL = 0.9
_MARK_PX = 2


class Meter(PaintedFigure):
    """Filled to `share`, in another colour where it is nearly full, with a mark somewhere."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(Role.ProgressBar, name, parent)
        self._share: float | None = None
        self._mark: float | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_share(self, share: float | None, mark: float | None = None) -> None:
        """0 to 1; None where it is not known, and for no mark."""
        if (share, mark) != (self._share, self._mark):
            self._share, self._mark = share, mark
            self.setAccessibleDescription("" if share is None else f"{100 * share:.0f} %")
            self.update()

    @property
    def share(self) -> float | None:
        """What is shown."""
        return self._share

    @property
    def mark(self) -> float | None:
        """Where the mark stands."""
        return self._mark

    def sizeHint(self) -> QSize:  # noqa: N802
        """A thin line."""
        return QSize(scaled(60), scaled(_HEIGHT))

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw it."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        height = self.height()
        box = QRectF(0, 0, self.width(), height)
        painter.setBrush(QColor(colors().track))
        painter.drawRoundedRect(box, height / 2, height / 2)
        if self._share:
            painter.setBrush(QColor(colors().warn if self._share > _NEARLY_FULL else colors().accent))
            box.setWidth(max(box.width() * min(self._share, 1.0), height))
            painter.drawRoundedRect(box, height / 2, height / 2)
        if self._mark is not None:
            painter.setBrush(QColor(colors().text))
            painter.drawRect(QRectF(self._mark * (self.width() - _MARK_PX), 0, _MARK_PX, height))
