"""A dial: an arc for a value, a mark for a reference, the number in the middle."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.stats.painted import PaintedFigure, Role
from app.stats.words import MISSING
from app.theme import NUMBER_PX, SMALL_PX, colors, scaled, sized

_WIDTH, _HEIGHT = 128, 132
_ARC_PX = 9
_START_DEGREES = 220.0
_SPAN_DEGREES = 260.0
_MARK_PX = 15


class Dial(PaintedFigure):
    """Shows `text` and `unit` inside an arc filled to `share` (0 to 1), with a mark at `mark` (0 to 1)."""

    def __init__(self, caption: str, parent: QWidget | None = None) -> None:
        super().__init__(Role.Indicator, caption, parent)
        self._caption = caption
        self._share: float | None = None
        self._mark: float | None = None
        self._text = MISSING
        self._unit = ""
        self._color = "accent"
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def show_value(
        self, share: float | None, text: str, unit: str, color: str = "accent", mark: float | None = None
    ) -> None:
        """Set everything; `color` names a colour of the theme. Without a share only the track is drawn."""
        shown = (share, text, unit, color, mark)
        if shown != (self._share, self._text, self._unit, self._color, self._mark):
            self._share, self._text, self._unit, self._color, self._mark = shown
            self.setAccessibleDescription(f"{text} {unit}")
            self.update()

    @property
    def text(self) -> str:
        """The number as shown."""
        return self._text

    @property
    def share(self) -> float | None:
        """How far the arc is filled."""
        return self._share

    @property
    def mark(self) -> float | None:
        """Where the mark stands."""
        return self._mark

    def sizeHint(self) -> QSize:  # noqa: N802
        """Always the same size, so that nothing moves when numbers change."""
        return QSize(scaled(_WIDTH), scaled(_HEIGHT))

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw the dial."""
        painter = QPainter(self)
        scale = min(self.width() / _WIDTH, self.height() / _HEIGHT)
        painter.translate((self.width() - scale * _WIDTH) / 2, 0)
        painter.scale(scale, scale)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        side = _WIDTH - 2 * _ARC_PX
        box = QRectF(_ARC_PX, _ARC_PX, side, side)
        self._draw_arc(painter, box, 1.0, colors().track)
        if self._share:
            self._draw_arc(painter, box, self._share, getattr(colors(), self._color))
        if self._mark is not None:
            self._draw_mark(painter, box, self._mark)
        self._draw_texts(painter, box)

    def _draw_arc(self, painter: QPainter, box: QRectF, share: float, color: str) -> None:
        painter.setPen(QPen(QColor(color), _ARC_PX, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        span = -_SPAN_DEGREES * min(max(share, 0.0), 1.0)
        painter.drawArc(box, round(16 * _START_DEGREES), round(16 * span))

    def _draw_mark(self, painter: QPainter, box: QRectF, share: float) -> None:
        painter.save()
        painter.translate(box.center())
        painter.rotate(-(_START_DEGREES - _SPAN_DEGREES * min(max(share, 0.0), 1.0)))
        painter.setPen(QPen(QColor(colors().text), 2))
        radius = box.width() / 2
        painter.drawLine(QPointF(radius - _MARK_PX / 2, 0), QPointF(radius + _MARK_PX / 2, 0))
        painter.restore()

    def _draw_texts(self, painter: QPainter, box: QRectF) -> None:
        center = Qt.AlignmentFlag.AlignCenter
        painter.setPen(QColor(colors().text))
        painter.setFont(sized(self.font(), NUMBER_PX, bold=True))
        painter.drawText(box.translated(0, -6), center, self._text)
        painter.setPen(QColor(colors().muted))
        painter.setFont(sized(self.font(), SMALL_PX))
        painter.drawText(box.translated(0, 18), center, self._unit)
        painter.setPen(QColor(colors().text))
        painter.drawText(QRectF(0, _HEIGHT - 20, _WIDTH, 20), center, self._caption)
