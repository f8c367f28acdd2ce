"""The statistics panel and its dials."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QAccessible, QColor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from app.pairs.mode_selector import Devices
from app.stats.dial import Dial
from app.stats.figures import Change, Figures
from app.stats.meter import Meter
from app.stats.panel import StatsPanel
from app.stats.step_record import AnswerRecord
from app.stats.totals import Position
from app.stats.verdict_chip import VerdictChip
from app.theme import DARK, Theme
from core.modes import MissingMode
from core.protocol import Loaded
from helpers.steps import answer_steps
from helpers.window import PAIR

GPU = Figures(
    tokens_per_second=48.3, plain_tokens_per_second=23.0, dial_top=100.0, acceptance=0.74, tokens_per_step=3.9,
    width=16, draft_ms=11.0, verify_ms=62.0, other_ms=1.6, time_to_first_token_s=0.21,
    context_used=1204, context_length=8192, memory_bytes=6_100_000_000, free_bytes=3_200_000_000, speed_up=2.1,
    modes=(("gpu", 0.8), ("plain", 0.2)), mode_reason="Expected here: more.",
    positions=(Position(88, 43), Position(88, 20)), kinds=(("code", 4.1), ("prose", 2.3)), plain_s=31.0, took_s=12.4,
)  # fmt: skip


@pytest.fixture
def panel(qtbot: QtBot, theme: Theme) -> StatsPanel:  # noqa: ARG001
    panel = StatsPanel()
    qtbot.addWidget(panel)
    panel.resize(panel.width(), 800)
    panel.show()
    return panel


def test_all_figures_are_shown_with_their_units(panel: StatsPanel) -> None:
    panel.show_device("cpu", "OpenBLAS")
    panel.set_devices(Devices(on_gpu=False))
    panel.show_figures(GPU)
    assert (panel.speed.text, panel.acceptance.text) == ("48.3", "74 %")
    assert panel.speed.mark == pytest.approx(0.23)
    assert panel.reference.text() == "mark: plain, measured 23.0 tok/s"
    assert (panel.per_step.text(), panel.per_step_of.text()) == ("3.9", "of at most 16")
    assert {name: row.text for name, row in panel.rows.items()} == {
        "speed_up": "2.10x plain decoding", "kinds": "code 4.1, prose 2.3",
        "draft": "11 ms", "verify": "62 ms", "other": "1.6 ms", "modes": "CPU draft 80 %", "first_token": "0.21 s",
        "context": "1,204 of 8,192",
        "memory": "6.1 GB", "free": "3.2 GB", "device": "cpu", "blas": "OpenBLAS",
    }  # fmt: skip
    assert panel.rows["modes"].toolTip() == "CPU draft 80 %\nPlain decoding 20 %\nExpected here: more."


def test_the_context_says_what_the_drafts_programs_do_not_see(panel: StatsPanel) -> None:
    row, meter = panel.rows["context"], panel.context_meter
    panel.show_figures(dataclasses.replace(GPU, programs_context=2048))
    assert (row.text, meter.share, meter.mark) == ("1,204 of 8,192", 1204 / 8192, 0.25)
    assert "of longer conversations not the middle" in row.toolTip()
    panel.show_figures(dataclasses.replace(GPU, context_used=3000, programs_context=2048))
    assert "952 in the middle are hidden" in row.toolTip()
    for others in ({"programs_context": 0}, {"programs_context": 8192}):
        panel.show_figures(dataclasses.replace(GPU, **others))
        assert (row.toolTip(), meter.mark) == ("", None)


def test_screen_readers_get_role_and_value_of_what_is_painted(panel: StatsPanel) -> None:
    panel.show_figures(GPU)
    role, text = QAccessible.Role, QAccessible.Text
    for widget, expected, value in (
        (panel.speed, role.Indicator, "48.3 tok/s"),
        (panel.acceptance, role.Indicator, "74 % of verified"),
        (panel.step_bar, role.ProgressBar, "3.9 of 16"),
        (panel.context_meter, role.ProgressBar, "15 %"),
        (panel.histogram, role.Chart, panel.histogram.accessibleDescription()),
        (panel.overlap.timeline, role.Chart, panel.overlap.timeline.accessibleDescription()),
    ):
        told = QAccessible.queryAccessibleInterface(widget)
        assert (told.role(), told.text(text.Value), told.text(text.Description)) == (expected, value, "")
        assert told.text(text.Name) == widget.accessibleName() != ""
    panel.show_figures(Figures())
    assert QAccessible.queryAccessibleInterface(panel.context_meter).text(text.Value) == ""
    assert QAccessible.queryAccessibleInterface(panel.per_step).role() == role.StaticText


def test_what_screen_readers_were_told_of_goes_with_its_widget(qtbot: QtBot) -> None:  # noqa: ARG001
    for _ in range(200):
        meter = Meter("Context")
        assert QAccessible.queryAccessibleInterface(meter).role() == QAccessible.Role.ProgressBar
        meter.deleteLater()
        QCoreApplication.sendPostedEvents(meter, QEvent.Type.DeferredDelete)
        assert not isValid(meter)


def test_little_free_memory_is_warned_of(panel: StatsPanel) -> None:
    panel.show_figures(dataclasses.replace(GPU, free_bytes=1_000_000_000))
    row = panel.rows["free"]
    assert (row.text, row.warns, row.toolTip()) == ("1.0 GB", False, "")
    panel.show_figures(dataclasses.replace(GPU, free_bytes=999_000_000))
    assert (row.text, row.warns) == ("999 MB", True)
    assert "Little is left" in row.toolTip()
    assert panel.rows["memory"].warns is False
    panel.show_figures(Figures())
    assert (row.text, row.warns) == ("—", False)


def test_the_counterfactual_stands_beside_the_speed_up(panel: StatsPanel) -> None:
    panel.show_figures(GPU)
    assert panel.counterfactual.text() == "12.4 s; plain decoding would have taken 31.0 s"
    panel.show_figures(Figures())
    assert panel.counterfactual.text() == "—"


def test_a_missing_figure_is_a_dash_that_says_why(panel: StatsPanel) -> None:
    panel.show_figures(Figures())
    for row in panel.rows.values():
        assert row.text == "—"
        assert row.toolTip()
    for widget in (panel.speed, panel.acceptance, panel.per_step, panel.counterfactual):
        assert "Known" in widget.toolTip()
    panel.show_figures(GPU)
    assert panel.rows["draft"].toolTip() == panel.speed.toolTip() == panel.acceptance.toolTip() == ""


def test_a_position_shows_its_counts(panel: StatsPanel, qtbot: QtBot) -> None:
    panel.show_figures(GPU)
    hint = panel.position.text()
    qtbot.keyClick(panel.histogram, Qt.Key.Key_Right)
    assert panel.position.text() == "d1: accepted in 43 of 88 blocks (49 %)"
    panel.show_figures(dataclasses.replace(GPU, positions=()))
    assert panel.position.text() == hint


def test_the_context_has_a_meter(panel: StatsPanel) -> None:
    panel.show_figures(GPU)
    assert panel.context_meter.share == pytest.approx(1204 / 8192)
    assert panel.context_meter.accessibleDescription() == "15 %"


def test_the_user_chooses_between_answer_and_chat(panel: StatsPanel, qtbot: QtBot) -> None:
    assert panel.scope == "answer"
    with qtbot.waitSignal(panel.scope_changed):
        panel.of_chat.click()
    assert panel.scope == "chat"
    panel.show_figures(dataclasses.replace(GPU, saved=True))
    assert panel.of_answer.text() == "Saved answer"


def test_changes_of_mode_and_an_idle_draft_are_listed_with_their_reasons(panel: StatsPanel) -> None:
    assert panel.changes.text() == "None in the last answer."
    changes = tuple(Change(float(n), "gpu", "Expected here: more.", failure=False) for n in range(8))
    panel.show_figures(dataclasses.replace(GPU, changes=changes, inactive="This pair has no draft."))
    lines = panel.changes.text().splitlines()
    assert lines[0] == "Speculation inactive: This pair has no draft."
    assert lines[1] == "7.0 s: GPU draft. Expected here: more."
    assert lines[-1] == "3 more before"


def test_modes_that_cannot_run_say_why(panel: StatsPanel) -> None:
    missing = (MissingMode("mirror", "Layer 2 differs."),)
    panel.show_loaded(Loaded(PAIR, ("plain",), missing, 16, 2048, 1.5, 20.0))
    assert panel.missing.text() == "Mirror: Layer 2 differs."
    panel.show_loaded(Loaded(PAIR, ("plain",), (), 16, 2048, 1.5, 20.0))
    assert panel.missing.text() == "None."


def test_the_simple_view_hides_what_experts_look_at(panel: StatsPanel) -> None:
    panel.set_simple(True)
    hidden = (
        panel.histogram,
        panel.overlap,
        panel.rows["draft"],
        panel.rows["blas"],
        panel.changes,
        panel.rows["kinds"],
    )
    shown = (panel.speed, panel.per_step, panel.counterfactual, panel.rows["context"], panel.rows["memory"])
    assert not any(widget.isVisible() for widget in hidden)
    assert all(widget.isVisible() for widget in shown)
    panel.set_simple(False)
    assert all(widget.isVisible() for widget in hidden)


def test_no_figure_moves_another(panel: StatsPanel) -> None:
    """All sections but the last, which grows at the end, stay where they are."""
    watched = [*panel.rows.values(), panel.step_bar, panel.histogram, panel.overlap.timeline, panel.overlap.export]
    before = [widget.mapTo(panel, widget.rect().topLeft()) for widget in watched]
    record = AnswerRecord()
    for each in answer_steps("mirror", 40):
        record.add(each)
    for figures in (GPU, dataclasses.replace(GPU, plain_s=12345.0, took_s=1234.0, tokens_per_second=1234.5)):
        panel.show_figures(figures)
        panel.show_record(record)
        panel.overlap.timeline.point_at(record.steps[-1])
        QApplication.processEvents()
        assert [widget.mapTo(panel, widget.rect().topLeft()) for widget in watched] == before


def test_the_timeline_has_a_window_of_its_own(panel: StatsPanel, qtbot: QtBot) -> None:
    record = AnswerRecord()
    for each in answer_steps("mirror", 40):
        record.add(each)
    panel.show_record(record)
    panel.overlap.enlarge.click()
    window = panel.timeline_window
    assert window is not None
    assert window.isVisible()
    assert window.view.counts.text() == panel.overlap.counts.text()
    record.add(next(answer_steps("mirror", 1)))
    panel.show_record(record)
    assert window.view.timeline._record is record
    with qtbot.waitSignal(panel.problem_met):
        window.view.export_to(Path("/nowhere/at/all.json"))
    window.close()


def test_everything_in_the_panel_is_reached_by_tab_and_has_a_name(panel: StatsPanel) -> None:
    wanted = {panel.of_answer, panel.histogram, panel.overlap.timeline, panel.overlap.zoom_in}
    panel.show_figures(GPU)
    for widget in wanted:
        assert widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        assert widget.accessibleName() or widget.text()  # type: ignore[attr-defined]


# ------------------------------------------------------------------------ the chip


@pytest.mark.parametrize(
    ("changes", "text", "dress"),
    [
        ({"speed_up": 2.14}, "2.1x plain speed", "faster"),
        ({"speed_up": 0.6}, "slower: 0.60x plain speed", "slower"),
        ({"speed_up": 1.0, "inactive": "It lost."}, "speculation inactive: It lost.", "inactive"),
    ],
)
def test_the_chip_tells_the_verdict_and_its_reason(
    qtbot: QtBot, changes: dict[str, object], text: str, dress: str
) -> None:
    chip = VerdictChip()
    qtbot.addWidget(chip)
    assert chip.isHidden()
    chip.show_figures(dataclasses.replace(Figures(), **changes))  # type: ignore[arg-type]
    assert not chip.isHidden()
    assert (chip.full_text(), chip.property("verdict")) == (text, dress)
    assert chip.toolTip()
    tip = chip.toolTip()
    chip.resize(60, 30)
    assert chip.toolTip() == tip == chip.accessibleDescription()
    chip.show_figures(Figures())
    assert chip.isHidden()


def test_plain_mode_shows_a_dash_for_acceptance_not_zero(panel: StatsPanel) -> None:
    panel.show_figures(dataclasses.replace(GPU, acceptance=None, tokens_per_step=None, width=None))
    assert panel.acceptance.text == "—"
    assert panel.acceptance.share is None
    assert panel.per_step.text() == "—"
    assert panel.per_step_of.text() == ""


def test_a_screen_reader_hears_the_dials(panel: StatsPanel) -> None:
    panel.show_figures(GPU)
    assert (panel.speed.accessibleName(), panel.speed.accessibleDescription()) == ("speed", "48.3 tok/s")
    assert panel.acceptance.accessibleDescription() == "74 % of verified"
    assert panel.step_bar.accessibleDescription() == "3.9 of 16"


@pytest.mark.parametrize(("speed", "color"), [(48.3, DARK.good), (23.0, DARK.accent), (12.0, DARK.warn)])
def test_the_speed_dial_is_coloured_by_whether_speculation_wins(panel: StatsPanel, speed: float, color: str) -> None:
    panel.show_figures(dataclasses.replace(GPU, tokens_per_second=speed))
    assert color in colors_in(panel.speed)


def test_the_arc_is_as_long_as_the_share(qtbot: QtBot, theme: Theme) -> None:  # noqa: ARG001
    dial = Dial("test")
    qtbot.addWidget(dial)
    counts = []
    for share in (None, 0.25, 0.5, 1.0):
        dial.show_value(share, "1", "unit", "good")
        counts.append(colors_in(dial).get(DARK.good, 0))
    assert counts[0] == 0
    assert counts[2] == pytest.approx(2 * counts[1], rel=0.15)
    assert counts[3] == pytest.approx(2 * counts[2], rel=0.15)


def test_nothing_is_wider_than_the_panel_and_long_values_wrap(panel: StatsPanel, qtbot: QtBot) -> None:
    panel.show_figures(dataclasses.replace(GPU, tokens_per_second=1234.5, dial_top=2000.0, context_used=123_456))
    panel.show_device("Apple M4 Max with a very long name indeed (gpu)", "a library of an even longer name")
    for row in panel.rows.values():
        assert row.mapTo(panel, row.rect().topRight()).x() <= panel.width()
    value = panel.rows["device"]._value
    assert panel.rows["device"].text == "Apple M4 Max with a very long name indeed (gpu)"
    qtbot.waitUntil(lambda: value.height() >= 2 * value.fontMetrics().lineSpacing())


def colors_in(dial: Dial) -> dict[str, int]:
    """How many pixels have which colour."""
    image = dial.grab().toImage()
    counts: dict[str, int] = {}
    for y in range(image.height()):
        for x in range(image.width()):
            name = QColor(image.pixel(x, y)).name()
            counts[name] = counts.get(name, 0) + 1
    return counts
