"""Paints one device's work: bars where they can be told apart, else the share of each kind of work in every column."""

from __future__ import annotations

from collections import defaultdict

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter

from app.stats.step_record import Lane, Work
from app.theme import colors

_COLUMN_PX = 2.0
_MOST_COLUMNS = 160  # a repaint costs some microseconds a column
_LEAST_PX_PER_BAR = 3.0
_LEAST_BAR_PX = 1.0


def work_brush(work: Work) -> QBrush:
    """Colour and pattern: discarded work is hatched, so that it needs no colour to be seen."""
    dress = colors()
    if work is Work.DISCARDED:
        return QBrush(QColor(dress.muted), Qt.BrushStyle.BDiagPattern)
    if work is Work.PROPOSE:
        faint = QColor(dress.accent)
        faint.setAlphaF(0.45)
        return QBrush(faint)
    names = {Work.VERIFY: dress.accent, Work.DRAFT: dress.name, Work.HIT: dress.good, Work.REDRAFT: dress.warn}
    return QBrush(QColor(names[work]))


def work_box(work: Work, box: QRectF) -> QRectF:
    """The part of a bar's box that this work fills: a draft made anew is half as high, so that misses have a shape."""
    if work is Work.REDRAFT:
        return QRectF(box.x(), box.y() + box.height() / 2, box.width(), box.height() / 2)
    return box


def paint_lane(painter: QPainter, lane: Lane, box: QRectF, begin_s: float, end_s: float) -> None:
    """Paint begin..end into the box."""
    painter.fillRect(box, QColor(colors().track))
    shown = lane.between(begin_s, end_s)
    if end_s <= begin_s or not shown:
        return
    if len(shown) * _LEAST_PX_PER_BAR <= box.width():
        boxes = _bars(lane, shown, box, begin_s, end_s)
    else:
        boxes = _columns(lane, box, begin_s, end_s)
    painter.setPen(Qt.PenStyle.NoPen)
    for work, several in boxes.items():
        painter.setBrush(work_brush(work))
        painter.drawRects(several)


def _bars(lane: Lane, shown: range, box: QRectF, begin_s: float, end_s: float) -> dict[Work, list[QRectF]]:
    boxes: dict[Work, list[QRectF]] = defaultdict(list)
    scale = box.width() / (end_s - begin_s)
    for span in map(lane.span, shown):
        left = box.x() + (max(span.begin_s, begin_s) - begin_s) * scale
        right = box.x() + (min(span.end_s, end_s) - begin_s) * scale
        bar = QRectF(left, box.y(), max(right - left, _LEAST_BAR_PX), box.height())
        boxes[span.work].append(work_box(span.work, bar))
    return boxes


def _columns(lane: Lane, box: QRectF, begin_s: float, end_s: float) -> dict[Work, list[QRectF]]:
    """Each column is filled from below by the share of its time that each kind of work took."""
    found: tuple[list[QRectF], ...] = tuple([] for _ in lane.works)
    places = range(len(lane.works))
    count = max(min(int(box.width() / _COLUMN_PX), _MOST_COLUMNS), 1)
    seconds, width = (end_s - begin_s) / count, box.width() / count
    left, bottom, scale = box.x(), box.bottom(), box.height() / seconds
    before = lane.busy_until(begin_s)
    for column in range(count):
        after = lane.busy_until(begin_s + (column + 1) * seconds)
        y = bottom
        for place in places:
            if (height := (after[place] - before[place]) * scale) > 0:
                y -= height
                found[place].append(QRectF(left + column * width, y, width, height))
        before = after
    return dict(zip(lane.works, found, strict=True))
