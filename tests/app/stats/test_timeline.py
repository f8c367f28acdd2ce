"""The overlap timeline and the histogram."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage, QMouseEvent, QPixmap, QWheelEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from app.stats.histogram import Histogram
from app.stats.overlap import OverlapView
from app.stats.step_record import AnswerRecord
from app.stats.timeline import FIRST_SPAN_S, Timeline
from app.stats.totals import Position
from app.theme import DARK, LIGHT, Colors, Theme
from core.protocol import BusySpan, Mode
from helpers.steps import answer_steps, step


def record(mode: Mode = "mirror", count: int = 200) -> AnswerRecord:
    made = AnswerRecord()
    for each in answer_steps(mode, count):
        made.add(each)
    return made


@pytest.fixture
def view(qtbot: QtBot, theme: Theme) -> OverlapView:  # noqa: ARG001
    view = OverlapView()
    qtbot.addWidget(view)
    view.resize(268, view.sizeHint().height())
    view.show()
    return view


@pytest.fixture
def timeline(view: OverlapView) -> Timeline:
    return view.timeline


def colors_in(widget: QWidget) -> dict[str, int]:
    return count_colors(widget.grab().toImage())


def count_colors(image: QImage) -> dict[str, int]:
    counts: dict[str, int] = {}
    for y in range(image.height()):
        for x in range(image.width()):
            name = QColor(image.pixel(x, y)).name()
            counts[name] = counts.get(name, 0) + 1
    return counts


def point_at(widget: QWidget, x: int) -> None:
    """Move the pointer there; `qtbot.mouseMove` sends nothing where it happens to be there already."""
    at = QPointF(x, 20)
    button, none = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    move = QMouseEvent(QEvent.Type.MouseMove, at, widget.mapToGlobal(at), button, button, none)
    QApplication.sendEvent(widget, move)


def wheel(timeline: Timeline, x: int, turned: QPoint, modifiers: Qt.KeyboardModifier) -> QWheelEvent:
    at = QPointF(x, 20)
    event = QWheelEvent(
        at, timeline.mapToGlobal(at), QPoint(), turned, Qt.MouseButton.NoButton, modifiers,
        Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    timeline.wheelEvent(event)
    return event


# ---------------------------------------------------------------------- the view


def test_the_newest_steps_stay_in_view_while_the_answer_grows(timeline: Timeline) -> None:
    growing = AnswerRecord()
    for each in answer_steps("mirror", 100):
        growing.add(each)
        timeline.show_record(growing)
        assert timeline.view[1] == pytest.approx(max(growing.end_s, FIRST_SPAN_S))


def test_slow_steps_get_more_time(timeline: Timeline) -> None:
    slow = AnswerRecord()
    for n in range(20):
        busy = (BusySpan(0.5 * n, 0.5 * n + 0.4),)
        slow.add(step(0.5 * n, n + 1, 1, "plain", target_busy=busy))
        timeline.show_record(slow)
    assert timeline.view[1] - timeline.view[0] == 4 * FIRST_SPAN_S  # eight steps of half a second
    timeline.zoom(2)
    timeline.show_record(slow)
    assert timeline.view[1] - timeline.view[0] == 2 * FIRST_SPAN_S


def test_a_view_that_was_moved_stays_where_it_is(timeline: Timeline) -> None:
    growing = AnswerRecord()
    steps = list(answer_steps("mirror", 150))
    for each in steps[:100]:
        growing.add(each)
    timeline.show_record(growing)
    timeline.pan(-1.0)
    assert not timeline.follows
    before = timeline.view
    for each in steps[100:]:
        growing.add(each)
        timeline.show_record(growing)
    assert timeline.view == before
    timeline.show_latest()
    assert timeline.view[1] == pytest.approx(growing.end_s)


def test_zoom_keeps_the_time_under_the_pointer(timeline: Timeline) -> None:
    timeline.show_record(record())
    timeline.pan(-3.0)
    x = 150
    for turned in (120, 240, -120):
        at_s = timeline._time_at(x)
        span_s = timeline.view[1] - timeline.view[0]
        event = wheel(timeline, x, QPoint(0, turned), Qt.KeyboardModifier.ControlModifier)
        assert event.isAccepted()
        assert timeline._time_at(x) == pytest.approx(at_s)
        assert (timeline.view[1] - timeline.view[0] < span_s) is (turned > 0)


def test_the_plain_wheel_is_the_panels(timeline: Timeline) -> None:
    timeline.show_record(record())
    before = timeline.view
    assert not wheel(timeline, 150, QPoint(0, 120), Qt.KeyboardModifier.NoModifier).isAccepted()
    assert timeline.view == before
    wheel(timeline, 150, QPoint(0, 120), Qt.KeyboardModifier.ShiftModifier)
    assert timeline.view[0] < before[0]


def test_no_zoom_or_pan_leaves_the_answer(timeline: Timeline) -> None:
    shown = record(count=50)
    timeline.show_record(shown)
    for _ in range(60):
        timeline.zoom(1.5)
    assert timeline.view[1] - timeline.view[0] == pytest.approx(0.01)
    for seconds in (-100.0, 100.0):
        timeline.pan(seconds)
        assert timeline.view[0] >= 0
        assert timeline.view[1] <= shown.end_s + 1e-9
    for _ in range(60):
        timeline.zoom(1 / 1.5)
    assert timeline.view == pytest.approx((0.0, shown.end_s))


def test_dragging_pans(timeline: Timeline, qtbot: QtBot) -> None:
    timeline.show_record(record())
    before = timeline.view
    qtbot.mousePress(timeline, Qt.MouseButton.LeftButton, pos=QPoint(100, 20))
    point_at(timeline, 160)
    qtbot.mouseRelease(timeline, Qt.MouseButton.LeftButton, pos=QPoint(160, 20))
    assert timeline.view[0] < before[0]
    dragged = timeline.view
    point_at(timeline, 100)
    assert timeline.view == dragged


def test_every_key_does_what_it_says(timeline: Timeline, qtbot: QtBot) -> None:
    shown = record()
    timeline.show_record(shown)
    qtbot.keyClick(timeline, Qt.Key.Key_Left)
    assert not timeline.follows
    qtbot.keyClick(timeline, Qt.Key.Key_Right)
    assert timeline.follows
    qtbot.keyClick(timeline, Qt.Key.Key_Home)
    assert timeline.view == pytest.approx((0.0, shown.end_s))
    qtbot.keyClick(timeline, Qt.Key.Key_Plus)
    assert timeline.view[1] - timeline.view[0] == pytest.approx(shown.end_s / 1.5)
    qtbot.keyClick(timeline, Qt.Key.Key_Minus)
    qtbot.keyClick(timeline, Qt.Key.Key_End)
    assert timeline.view[1] - timeline.view[0] == pytest.approx(FIRST_SPAN_S)


def test_another_answer_is_followed_anew(timeline: Timeline) -> None:
    timeline.show_record(record())
    timeline.zoom(3)
    timeline.pan(-2.0)
    timeline.show_record(record("gpu"))
    assert timeline.follows
    assert timeline.view[1] - timeline.view[0] == FIRST_SPAN_S


# ------------------------------------------------------------------ steps in words


def test_the_step_under_the_pointer_shows_its_figures(view: OverlapView) -> None:
    shown = record()
    view.show_record(shown)
    hint = view.detail.text()
    point_at(view.timeline, 150)
    expected = shown.step_at(view.timeline._time_at(150))
    assert expected is not None
    assert f"step {expected.number}," in view.detail.text()
    assert f"{expected.accepted} of 15 accepted" in view.detail.text()
    view.timeline.leaveEvent(None)  # type: ignore[arg-type]
    assert view.detail.text() == hint


def test_keys_go_from_step_to_step_and_bring_it_into_view(view: OverlapView, qtbot: QtBot) -> None:
    shown = record()
    view.show_record(shown)
    for expected in (shown.count, shown.count - 1, shown.count - 2):
        qtbot.keyClick(view.timeline, Qt.Key.Key_Comma)
        assert f"step {expected}," in view.detail.text()
        assert view.timeline.accessibleDescription() == view.detail.text()
    qtbot.keyClick(view.timeline, Qt.Key.Key_Period)
    assert f"step {shown.count - 1}," in view.detail.text()
    for _ in range(100):
        qtbot.keyClick(view.timeline, Qt.Key.Key_Comma)
    step = shown.step_number(shown.count - 101)
    assert step is not None
    assert view.timeline.view[0] <= step.begin_s <= view.timeline.view[1]


def test_nothing_is_claimed_before_there_is_a_step(view: OverlapView, qtbot: QtBot) -> None:
    assert view.hidden.text == "—"
    assert "Known once" in view.hidden.toolTip()
    assert view.counts.text() == ""
    assert not view.export.isEnabled()
    qtbot.keyClick(view.timeline, Qt.Key.Key_Comma)
    point_at(view.timeline, 150)
    view.timeline.show_all()
    view.timeline.zoom(2)
    view.grab()


def test_hits_misses_and_discarded_work_are_counted(view: OverlapView) -> None:
    shown = record()
    view.show_record(shown)
    assert view.counts.text().startswith(f"{shown.hits} hits, {shown.misses} misses; ")
    view.show_record(record("gpu"))
    assert "after the verification" in view.counts.text()
    assert view.hidden.text == "0 %"


# ------------------------------------------------------------------------ painting


@pytest.mark.parametrize(("scheme", "dress"), [("dark", DARK), ("light", LIGHT)])
@pytest.mark.parametrize("everything", [False, True])
def test_hits_and_misses_differ_in_colour_and_shape(
    timeline: Timeline, theme: Theme, scheme: str, dress: Colors, everything: bool
) -> None:
    theme.set_scheme(scheme)  # type: ignore[arg-type]
    timeline.show_record(record(count=600))
    if everything:
        timeline.show_all()
    found = colors_in(timeline)
    assert {dress.accent, dress.good, dress.warn, dress.muted} <= found.keys()
    timeline.show_record(record("gpu"))
    serial = colors_in(timeline)
    assert dress.name in serial
    assert not {dress.good, dress.warn} & serial.keys()


def test_a_draft_made_anew_is_half_as_high_as_a_hit(timeline: Timeline) -> None:
    timeline.show_record(record(count=10))
    draft = timeline._lane_boxes()[1].toRect()
    upper = draft.adjusted(0, 1, 0, -draft.height() // 2 - 1)
    lower = draft.adjusted(0, draft.height() // 2 + 1, 0, -1)
    above, below = (count_colors(timeline.grab(half).toImage()) for half in (upper, lower))
    assert DARK.good in above
    assert DARK.warn in below
    assert DARK.warn not in above


def test_a_column_is_filled_as_high_as_the_device_was_busy(timeline: Timeline) -> None:
    """The share of colour is the share of time, at any zoom."""
    shown = record("plain", 3000)
    timeline.show_record(shown)
    timeline.show_all()
    target = timeline._lane_boxes()[0].toRect()
    image = timeline.grab(target).toImage()
    filled = count_colors(image).get(DARK.accent, 0) / (image.width() * image.height())
    busy_s = sum(shown.target.busy_until(shown.end_s)) - sum(shown.target.busy_until(0.0))
    assert filled == pytest.approx(busy_s / shown.end_s, abs=0.05)


def test_painting_costs_by_what_is_seen_and_not_by_how_many_steps_there_are(timeline: Timeline) -> None:
    calls = {count: calls_of_painting(timeline, count) for count in (500, 2000, 8000)}
    for few, more, many in zip(*calls.values(), strict=True):
        assert few < 3_000
        assert max(more, many) < 2 * few


def calls_of_painting(timeline: Timeline, steps: int) -> list[int]:
    """Of functions, while the newest of so many steps are painted, all of them, and some."""
    timeline.show_record(record(count=steps))
    image = QPixmap(timeline.size())
    counts = []
    for prepare in (timeline.show_latest, timeline.show_all, lambda: timeline.zoom(20)):
        prepare()
        calls: Counter[str] = Counter()
        sys.setprofile(lambda _frame, event, _argument, calls=calls: calls.update([event]))  # type: ignore[misc]
        try:
            timeline.render(image)
        finally:
            sys.setprofile(None)
        counts.append(calls["call"] + calls["c_call"])
    return counts


# -------------------------------------------------------------------------- export


def test_the_trace_is_exported_through_a_dialog(view: OverlapView, qtbot: QtBot, tmp_path: Path) -> None:
    view.show_record(record())
    view.export.click()
    dialog = view.findChild(QFileDialog)
    assert dialog is not None
    with qtbot.waitSignal(dialog.fileSelected):
        dialog.setDirectory(str(tmp_path))
        dialog.selectFile("answer.json")
        dialog.accept()
    assert (tmp_path / "answer.json").read_text().startswith("{")
    assert "answer.json" in view.detail.text()


def test_a_trace_that_cannot_be_written_is_told(view: OverlapView, qtbot: QtBot, tmp_path: Path) -> None:
    view.show_record(record())
    with qtbot.waitSignal(view.problem_met) as met:
        view.export_to(tmp_path / "missing" / "answer.json")
    assert met.args is not None
    assert met.args[0].kind == "TraceNotWritten"


# ----------------------------------------------------------------------- histogram


@pytest.fixture
def histogram(qtbot: QtBot, theme: Theme) -> Histogram:  # noqa: ARG001
    histogram = Histogram()
    qtbot.addWidget(histogram)
    histogram.resize(268, histogram.sizeHint().height())
    histogram.show()
    return histogram


def test_bars_are_as_high_as_their_shares(histogram: Histogram) -> None:
    counts = []
    for accepted in (0, 25, 50, 100):
        histogram.show_positions((Position(100, accepted),) * 8)
        counts.append(colors_in(histogram).get(DARK.good, 0))
    assert counts[0] == 0
    assert counts[2] == pytest.approx(2 * counts[1], rel=0.15)
    assert counts[3] == pytest.approx(2 * counts[2], rel=0.15)


def test_few_blocks_give_no_bar(histogram: Histogram) -> None:
    histogram.show_positions((Position(3, 3),) * 8)
    assert DARK.good not in colors_in(histogram)
    assert histogram.accessibleDescription() == ""


def test_positions_are_reached_by_pointer_and_key_and_read_aloud(histogram: Histogram, qtbot: QtBot) -> None:
    histogram.show_positions(tuple(Position(100, 90 - 10 * n) for n in range(8)))
    assert histogram.accessibleDescription().startswith("position 1: 90 %, position 2: 80 %")
    pointed: list[int] = []
    histogram.position_pointed.connect(pointed.append)
    point_at(histogram, 5)
    point_at(histogram, 265)
    qtbot.keyClick(histogram, Qt.Key.Key_Left)
    qtbot.keyClick(histogram, Qt.Key.Key_Right)
    qtbot.keyClick(histogram, Qt.Key.Key_Right)
    histogram.leaveEvent(None)  # type: ignore[arg-type]
    assert pointed == [1, 8, 7, 8, 0]


@pytest.mark.parametrize("count", [0, 1, 15, 31])
def test_any_block_size_can_be_drawn(histogram: Histogram, count: int) -> None:
    histogram.show_positions((Position(100, 50),) * count)
    histogram.grab()
    point_at(histogram, 100)
    assert (histogram.pointed > 0) is (count > 0)
