"""The overlap timeline: a lane for the target, a lane for the draft, over the time of one answer."""

from __future__ import annotations

import math
from collections.abc import Callable

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.language import tr
from app.stats.lane_paint import paint_lane
from app.stats.painted import PaintedFigure, Role
from app.stats.step_record import AnswerRecord, StepRecord
from app.theme import SMALL_PX, colors, scaled, sized

FIRST_SPAN_S = 1.0
_FEW_STEPS = 8
_LEAST_SPAN_S = 0.01
_LANE_PX, _MARKS_PX, _AXIS_PX = 22, 14, 18
_GAP_PX = 8
_NAME_LEFT_PX = 4
_ZOOM = 1.5
_PAN_SHARE = 0.25
_LEAST_MARK_PX = 9.0
_WHEEL_STEP = 120.0
_TICKS = 4
_TARGET, _DRAFT = tr("Target"), tr("Draft")


class Timeline(PaintedFigure):
    """Follows the newest steps until the user moves away from them.

    Ctrl+wheel and +/- zoom; dragging, Shift+wheel and the arrow keys pan; comma and full stop go from step to step;
    Home shows all, End the newest.
    """

    step_pointed = Signal(object)
    """`StepRecord` under the pointer, or chosen by key; None for none."""
    view_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Role.Chart, tr("Overlap timeline"), parent)
        self._record = AnswerRecord()
        self._begin_s = 0.0
        self._span_s = FIRST_SPAN_S
        self._follows = True
        self._shows_all = False
        self._chooses_span = True  # until the user zooms
        self._pointed: int | None = None
        self._dragged_from: float | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)

    # ------------------------------------------------------------- what is shown

    def show_record(self, record: AnswerRecord) -> None:
        """Show this answer as it stands; call it again when it has grown."""
        if record is not self._record:
            self._record = record
            self._follows, self._shows_all, self._chooses_span = True, False, True
            self._point_at(None)
        self._move_to_end()
        self.update()

    @property
    def view(self) -> tuple[float, float]:
        """Begin and end of what is shown, in seconds."""
        return self._begin_s, self._begin_s + self._span_s

    @property
    def follows(self) -> bool:
        """Whether the newest steps stay in view."""
        return self._follows

    def zoom(self, factor: float, at_s: float | None = None) -> None:
        """Show `factor` times less; `at_s` stays where it is, or the end while the view follows, else the middle."""
        begin_s, end_s = self.view
        span_s = min(max(self._span_s / factor, _LEAST_SPAN_S), max(self._whole_s(), FIRST_SPAN_S))
        if at_s is None:
            at_s = (begin_s + end_s) / 2
        share = (at_s - begin_s) / self._span_s
        self._shows_all = self._chooses_span = False
        self._span_s = span_s
        self._show_from(at_s - share * span_s, keeps_following=self._follows)

    def pan(self, seconds: float) -> None:
        """Move the view; at the newest step it follows again."""
        self._shows_all = self._chooses_span = False
        self._show_from(self._begin_s + seconds)

    def show_all(self) -> None:
        """The whole answer, also as it grows."""
        self._follows = self._shows_all = True
        self._chooses_span = False
        self._move_to_end()
        self._changed()

    def show_latest(self) -> None:
        """The newest steps, also as more come."""
        self._follows, self._shows_all, self._chooses_span = True, False, True
        self._move_to_end()
        self._changed()

    def point_at(self, step: StepRecord | None) -> None:
        """Choose a step as if the pointer were on it, and bring it into view."""
        self._point_at(step)
        if step is not None and not self.view[0] <= (step.begin_s + step.end_s) / 2 <= self.view[1]:
            self._show_from((step.begin_s + step.end_s - self._span_s) / 2)

    def _whole_s(self) -> float:
        return self._record.end_s - self._record.begin_s

    def _move_to_end(self) -> None:
        if self._shows_all:
            self._span_s = max(self._whole_s(), _LEAST_SPAN_S)
        elif self._chooses_span:
            self._span_s = self._span_of_few_steps()
        if self._follows:
            self._begin_s = max(self._record.end_s - self._span_s, self._record.begin_s)

    def _span_of_few_steps(self) -> float:
        """Doubled from the first span, so that it does not change with every step."""
        few_s = _FEW_STEPS * self._whole_s() / max(len(self._record.steps), 1)
        span_s = FIRST_SPAN_S
        while span_s < few_s:
            span_s *= 2
        return span_s

    def _show_from(self, begin_s: float, keeps_following: bool = False) -> None:
        last_s = max(self._record.end_s - self._span_s, self._record.begin_s)
        self._begin_s = last_s if keeps_following else min(max(begin_s, self._record.begin_s), last_s)
        self._follows = self._begin_s >= last_s
        self._changed()

    def _changed(self) -> None:
        self.view_changed.emit()
        self.update()

    def _point_at(self, step: StepRecord | None) -> None:
        number = step.number if step else None
        if number != self._pointed:
            self._pointed = number
            self.step_pointed.emit(step)
            self.update()

    # ------------------------------------------------------------ what is painted

    def sizeHint(self) -> QSize:  # noqa: N802
        """Always as high, so that nothing moves."""
        return QSize(scaled(120), 2 * scaled(_LANE_PX) + scaled(_MARKS_PX) + scaled(_GAP_PX) + scaled(_AXIS_PX))

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw the lanes, the marks of hits and misses between them, and the time."""
        painter = QPainter(self)
        small = sized(self.font(), scaled(SMALL_PX))
        painter.setFont(small)
        target, draft = self._lane_boxes()
        painter.setPen(QColor(colors().muted))
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        for box, name in ((target, _TARGET), (draft, _DRAFT)):
            painter.drawText(QRectF(_NAME_LEFT_PX, box.y(), box.x(), box.height()), middle, name)
        begin_s, end_s = self.view
        paint_lane(painter, self._record.target, target, begin_s, end_s)
        paint_lane(painter, self._record.draft, draft, begin_s, end_s)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_marks(painter, target, draft)
        self._paint_pointed(painter, target, draft)
        self._paint_axis(painter, draft)
        if self.hasFocus():
            painter.setPen(QPen(QColor(colors().accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))

    def _lane_boxes(self) -> tuple[QRectF, QRectF]:
        metrics = QFontMetricsF(sized(self.font(), scaled(SMALL_PX)))
        left = max(metrics.horizontalAdvance(name) for name in (_TARGET, _DRAFT)) + 10 + _NAME_LEFT_PX
        width = max(self.width() - left - 2, 1.0)
        top, lane = scaled(_GAP_PX) / 2, scaled(_LANE_PX)
        return QRectF(left, top, width, lane), QRectF(left, top + lane + scaled(_MARKS_PX), width, lane)

    def _x_of(self, time_s: float, box: QRectF) -> float:
        return box.x() + (time_s - self._begin_s) / self._span_s * box.width()

    def _shown_steps(self) -> list[StepRecord]:
        """Those in view, where they are few enough to be told apart."""
        first, last = (self._record.index_at(time_s) for time_s in self.view)
        box = self._lane_boxes()[0]
        if (last - first + 1) * _LEAST_MARK_PX > box.width():
            return []
        return self._record.steps[max(first, 0) : last + 1]

    def _paint_marks(self, painter: QPainter, target: QRectF, draft: QRectF) -> None:
        """Between the lanes: a dot for a hit, a cross for a miss."""
        y, r = (target.bottom() + draft.y()) / 2, float(scaled(3))
        for step in self._shown_steps():
            x = self._x_of(step.begin_s, draft)
            if step.branch is None or not draft.x() + r <= x <= draft.right() - r:
                continue
            if step.branch == "hit":
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(colors().good))
                painter.drawEllipse(QPointF(x, y), r, r)
            else:
                painter.setPen(QPen(QColor(colors().warn), 1.8))
                painter.drawLine(QPointF(x - r, y - r), QPointF(x + r, y + r))
                painter.drawLine(QPointF(x - r, y + r), QPointF(x + r, y - r))

    def _paint_pointed(self, painter: QPainter, target: QRectF, draft: QRectF) -> None:
        step = self._record.step_number(self._pointed) if self._pointed else None
        if step is None:
            return
        left = max(self._x_of(step.begin_s, draft), draft.x())
        right = min(self._x_of(step.end_s, draft), draft.right())
        if right > left:
            painter.setPen(QPen(QColor(colors().text), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(QRectF(left, target.y() - 2, right - left, draft.bottom() - target.y() + 4))

    def _paint_axis(self, painter: QPainter, draft: QRectF) -> None:
        begin_s, end_s = self.view
        painter.setPen(QColor(colors().muted))
        top, height = draft.bottom() + 3, scaled(_AXIS_PX)
        if not self._record.steps:
            painter.drawText(
                QRectF(draft.x(), top, draft.width(), height), Qt.AlignmentFlag.AlignLeft, tr("no step yet")
            )
            return
        decimals = min(max(1 - math.floor(math.log10(end_s - begin_s)), 0), 3)
        width = scaled(80)
        ticks = _TICKS if draft.width() >= 2.5 * width else 2
        for tick in range(ticks):
            share = tick / (ticks - 1)
            text = f"{begin_s + share * (end_s - begin_s):.{decimals}f}"
            box = QRectF(draft.x() + share * draft.width() - width / 2, top, width, height)
            align = Qt.AlignmentFlag.AlignHCenter
            if tick == 0:
                box, align = QRectF(draft.x(), top, width, height), Qt.AlignmentFlag.AlignLeft
            elif tick == ticks - 1:
                box, align = QRectF(draft.right() - width, top, width, height), Qt.AlignmentFlag.AlignRight
                text += " s"
            painter.drawText(box, align, text)

    # ---------------------------------------------------------- pointer and keys

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Zoom with Ctrl, pan with Shift or sideways; else the panel scrolls."""
        turned = event.angleDelta()
        control = event.modifiers() & Qt.KeyboardModifier.ControlModifier
        sideways = turned.x() if turned.x() else turned.y()
        if control and turned.y():
            self.zoom(_ZOOM ** (turned.y() / _WHEEL_STEP), self._time_at(event.position().x()))
        elif turned.x() or event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.pan(-_PAN_SHARE * self._span_s * sideways / _WHEEL_STEP)
        else:
            event.ignore()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Begin to drag."""
        self._dragged_from = event.position().x()

    def mouseReleaseEvent(self, _event: QMouseEvent) -> None:  # noqa: N802
        """Stop dragging."""
        self._dragged_from = None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Drag, or point at a step."""
        x = event.position().x()
        if self._dragged_from is not None:
            self.pan((self._dragged_from - x) / self._lane_boxes()[0].width() * self._span_s)
            self._dragged_from = x
        else:
            self._point_at(self._record.step_at(self._time_at(x)))

    def leaveEvent(self, _event: QEvent) -> None:  # noqa: N802
        """Point at nothing."""
        self._point_at(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """See the class."""
        actions: dict[Qt.Key, Callable[[], None]] = {
            Qt.Key.Key_Left: lambda: self.pan(-_PAN_SHARE * self._span_s),
            Qt.Key.Key_Right: lambda: self.pan(_PAN_SHARE * self._span_s),
            Qt.Key.Key_Plus: lambda: self.zoom(_ZOOM),
            Qt.Key.Key_Equal: lambda: self.zoom(_ZOOM),
            Qt.Key.Key_Minus: lambda: self.zoom(1 / _ZOOM),
            Qt.Key.Key_Home: self.show_all,
            Qt.Key.Key_End: self.show_latest,
            Qt.Key.Key_Comma: lambda: self._go(-1),
            Qt.Key.Key_Period: lambda: self._go(1),
        }
        action = actions.get(Qt.Key(event.key()))
        if action is None:
            super().keyPressEvent(event)
        else:
            action()

    def _go(self, by: int) -> None:
        """To the next step or the one before; from none to the newest."""
        steps = self._record.steps
        if not steps:
            return
        number = steps[-1].number if self._pointed is None else self._pointed + by
        number = min(max(number, steps[0].number), steps[-1].number)
        self.point_at(self._record.step_number(number))

    def _time_at(self, x: float) -> float:
        box = self._lane_boxes()[0]
        return self._begin_s + (x - box.x()) / box.width() * self._span_s
