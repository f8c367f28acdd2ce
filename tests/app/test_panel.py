"""The statistics panel and its dials."""

from __future__ import annotations

import dataclasses

import pytest
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from app.pairs.mode_selector import Devices
from app.stats.dial import Dial
from app.stats.figures import Figures
from app.stats.panel import StatsPanel
from app.theme import DARK, Theme

GPU = Figures(
    tokens_per_second=48.3, plain_tokens_per_second=23.0, dial_top=100.0, acceptance=0.74, tokens_per_step=3.9,
    width=16, draft_ms=11.0, verify_ms=62.0, other_ms=1.6, time_to_first_token_s=0.21,
    context_used=1204, context_length=8192, memory_bytes=6_100_000_000, speed_up=2.1,
    modes=(("gpu", 0.8), ("plain", 0.2)), mode_reason="Expected here: more.",
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
    assert panel.reference.text() == "mark: plain decoding, measured 23.0 tok/s"
    assert (panel.per_step.text(), panel.per_step_of.text()) == ("3.9", "of at most 16")
    assert {name: row.text for name, row in panel.rows.items()} == {
        "draft": "11 ms", "verify": "62 ms", "other": "1.6 ms", "modes": "CPU draft 80 %", "first_token": "0.21 s",
        "context": "1,204 of 8,192",
        "memory": "6.1 GB", "device": "cpu", "blas": "OpenBLAS",
    }  # fmt: skip
    assert panel.rows["modes"].toolTip() == "CPU draft 80 %\nPlain decoding 20 %\nExpected here: more."


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


def test_nothing_is_wider_than_the_panel(panel: StatsPanel) -> None:
    panel.show_figures(dataclasses.replace(GPU, tokens_per_second=1234.5, dial_top=2000.0, context_used=123_456))
    panel.show_device("Apple M4 Max with a very long name indeed (gpu)", "a library of an even longer name")
    for row in panel.rows.values():
        assert row.mapTo(panel, row.rect().topRight()).x() <= panel.width()
    assert panel.rows["device"]._value.text().endswith("…")
    assert panel.rows["device"].text.startswith("Apple M4 Max with")


def colors_in(dial: Dial) -> dict[str, int]:
    """How many pixels have which colour."""
    image = dial.grab().toImage()
    counts: dict[str, int] = {}
    for y in range(image.height()):
        for x in range(image.width()):
            name = QColor(image.pixel(x, y)).name()
            counts[name] = counts.get(name, 0) + 1
    return counts
