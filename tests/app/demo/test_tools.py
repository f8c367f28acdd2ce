"""Statistics, race and check with the real engine and the demo pair."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.check.check_model import CheckState
from app.generation import State
from app.main_window import MainWindow
from app.race.race_model import RaceState
from app.stats.step_record import Work
from core.protocol import Done, Step
from helpers.looks import assert_sound_look

WAIT_MS = 240_000
pytestmark = [pytest.mark.slow]


def test_the_timeline_shows_what_both_devices_did_in_mirror_mode(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    steps: list[Step] = []
    ends: list[Done] = []
    window.generation.stepped.connect(steps.append)
    window.generation.answer_ended.connect(lambda answer: ends.append(answer.ending.done))
    window.mode_selector.choose("mirror")
    window.chats.send("Write a Python function that adds the numbers of a list.")
    qtbot.waitUntil(lambda: bool(ends), timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window.generation.state is State.IDLE, timeout=WAIT_MS)
    record, panel = window.figures.shown.record, window.panel
    assert record.count == len(steps)
    assert record.hits == sum(step.branch == "hit" for step in steps) > 0
    assert record.misses == sum(step.branch == "miss" for step in steps)
    assert {record.draft.span(index).work for index in range(len(record.draft))} >= {Work.HIT, Work.REDRAFT}
    assert record.overlap is not None
    assert 0 < record.overlap <= 1
    assert panel.overlap.hidden.text == f"{100 * record.overlap:.0f} %"
    for one, after in zip(record.steps, record.steps[1:], strict=False):
        assert one.end_s == after.begin_s < after.end_s
    positions = panel.histogram.positions
    assert positions[0].offered == ends[0].steps
    assert sum(each.accepted for each in positions) == ends[0].accepted
    panel.overlap.export_to(tmp_path / "trace.json")
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) > 3 * len(steps)
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)


def test_a_race_on_the_demo_pair_gives_the_same_text(window: MainWindow, qtbot: QtBot) -> None:
    window.tools.open_race()
    race = window.tools.race
    assert race is not None
    race.tokens.setValue(48)
    for mode, temperature in (("gpu", 0.0), ("mirror", 0.8)):
        race.mode.setCurrentIndex(race._modes.index(mode))  # type: ignore[arg-type]
        race.temperature.setValue(temperature)
        race.start.click()
        qtbot.waitUntil(lambda: race._model.state in (RaceState.DONE, RaceState.FAILED), timeout=WAIT_MS)
        race.skip.click()
        assert race.verdict.text().startswith(f"Same text: {len(race._model.left.token_ids)} tokens")
        assert race._model.left.token_ids == list(race._model.left.done.token_ids)  # type: ignore[union-attr]
    qtbot.waitUntil(lambda: assert_sound_look(race), timeout=WAIT_MS)
    window.chats.send("Say hello.")
    qtbot.waitUntil(lambda: window.generation.state is State.ANSWERING, timeout=WAIT_MS)


def test_a_check_of_the_demo_pair_ends_with_its_verdict(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("Why do cats purr?\nCount from 1 to 10.\n")
    window.tools.open_check()
    check = window.tools.check
    assert check is not None
    check.use_prompts(tmp_path / "prompts.txt")
    check.tokens.setValue(24)
    check.start.click()
    qtbot.waitUntil(lambda: check._model.state in (CheckState.DONE, CheckState.FAILED), timeout=WAIT_MS)
    assert check.summary.property("dress") == "good"
    assert check.by_mode.rowCount() == len(window._engine.status.loaded.modes)  # type: ignore[union-attr]
    equal = check.by_mode.item(1, 1)
    assert equal is not None
    assert equal.text().endswith("of 2")
    qtbot.waitUntil(lambda: assert_sound_look(check), timeout=WAIT_MS)
