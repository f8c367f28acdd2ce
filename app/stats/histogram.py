"""Acceptance by position in the block, as bars: of the blocks that proposed a token there, how many had it accepted."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.language import tr
from app.stats.painted import PaintedFigure, Role
from app.stats.totals import Position
from app.theme import SMALL_PX, colors, scaled, sized

_BARS_PX, _NAMES_PX = 64, 18
_EMPTY_BARS = 15
_LABEL_EVERY = 5
_GAP = 2.0


class Histogram(PaintedFigure):
    """Left and right go from position to position."""

    position_pointed = Signal(int)
    """1-based position under the pointer, or chosen by key; 0 for none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Role.Chart, tr("Acceptance by position in the block"), parent)
        self._positions: tuple[Position, ...] = ()
        self._pointed = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)

    def show_positions(self, positions: tuple[Position, ...]) -> None:
        """Show these; empty where nothing was proposed yet."""
        if positions != self._positions:
            self._positions = positions
            known = [
                tr("position {number}: {percent:.0f} %").format(number=number, percent=100 * each.share)
                for number, each in enumerate(positions, 1)
                if each.share is not None
            ]
            self.setAccessibleDescription(", ".join(known))
            self.update()

    @property
    def positions(self) -> tuple[Position, ...]:
        """What is shown."""
        return self._positions

    @property
    def pointed(self) -> int:
        """The position under the pointer; 0 for none."""
        return self._pointed

    def sizeHint(self) -> QSize:  # noqa: N802
        """Always as high, so that nothing moves."""
        return QSize(scaled(120), scaled(_BARS_PX) + scaled(_NAMES_PX))

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw a track for every position, filled to its share from below."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(sized(self.font(), scaled(SMALL_PX)))
        count = len(self._positions) or _EMPTY_BARS
        for number in range(1, count + 1):
            self._paint_bar(painter, number, self._box(number, count))
        if self.hasFocus():
            painter.setPen(QPen(QColor(colors().accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))

    def _box(self, number: int, count: int) -> QRectF:
        width = (self.width() - 4 - _GAP * (count - 1)) / count
        return QRectF(2 + (number - 1) * (width + _GAP), 2, width, scaled(_BARS_PX) - 4)

    def _paint_bar(self, painter: QPainter, number: int, box: QRectF) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colors().track))
        painter.drawRoundedRect(box, 2, 2)
        share = self._positions[number - 1].share if self._positions else None
        if share:
            painter.setBrush(QColor(colors().text if number == self._pointed else colors().good))
            height = max(box.height() * share, 1.0)
            painter.drawRoundedRect(QRectF(box.x(), box.bottom() - height, box.width(), height), 2, 2)
        if number == 1 or number % _LABEL_EVERY == 0:
            painter.setPen(QColor(colors().muted))
            half = scaled(20)
            names = QRectF(box.center().x() - half, scaled(_BARS_PX), 2 * half, scaled(_NAMES_PX))
            painter.drawText(names, Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop, str(number))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Point at a position."""
        count = len(self._positions)
        x = event.position().x()
        self._point_at(min(max(int((x - 2) / (self.width() - 4) * count) + 1, 1), count) if count else 0)

    def leaveEvent(self, _event: QEvent) -> None:  # noqa: N802
        """Point at nothing."""
        self._point_at(0)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """See the class."""
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        by = steps.get(Qt.Key(event.key()))
        if by is None or not self._positions:
            super().keyPressEvent(event)
            return
        self._point_at(min(max(self._pointed + by, 1), len(self._positions)))

    def _point_at(self, number: int) -> None:
        if number != self._pointed:
            self._pointed = number
            self.position_pointed.emit(number)
            self.update()
