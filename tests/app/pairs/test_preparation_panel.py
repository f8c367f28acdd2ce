"""The preparation as the user sees it: consent, one bar, words, times, notes, a stop; with a stand-in worker."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.engine import PairState, PairStatus
from app.main_window import MainWindow
from app.pairs.picker import PairPicker
from app.pairs.preparation_panel import PreparationPanel
from app.pairs.sources import PairSources
from core.errors import Problem
from core.kernel_messages import KernelProgress
from core.protocol import LoadPart, Progress
from helpers.tiny_pairs import DRAFT, TARGET, draft_files, target_files, write_model
from helpers.window import PAIR, WAIT_MS, OpenWindow

FIRST = "tiny-4bit"
PARTS: tuple[LoadPart, ...] = ("target", "draft", "programs", "plain", "costs", "check")


@pytest.fixture
def on_disk(sources: PairSources) -> PairSources:
    """The tiny pair lies in another program's folder."""
    assert sources.home is not None
    models = sources.home / ".lmstudio" / "models"
    write_model(models / TARGET, target_files())
    write_model(models / DRAFT, draft_files())
    return sources


@pytest.fixture
def panel(qtbot: QtBot) -> PreparationPanel:
    panel = PreparationPanel()
    qtbot.addWidget(panel)
    return panel


def loading(part: LoadPart, share: float, left_s: float | None = None, **more: object) -> PairStatus:
    progress = Progress(f"doing {part}", PARTS.index(part), len(PARTS), share, 2.0, left_s, part, PARTS, **more)  # type: ignore[arg-type]
    return PairStatus(PairState.LOADING, "Tiny", progress.stage, round(100 * share), left_s, progress)


def ready_to_use(window: MainWindow, qtbot: QtBot) -> PairPicker:
    qtbot.waitUntil(lambda: window._engine.status.state is PairState.READY, timeout=WAIT_MS)
    window.open_picker()
    picker = window.picker
    assert picker is not None
    qtbot.waitUntil(lambda: FIRST in picker._cards and picker._cards[FIRST].use.isVisible(), timeout=WAIT_MS)
    picker._cards[FIRST].use.click()
    return picker


def test_the_bar_the_words_and_the_times_follow_the_engine(panel: PreparationPanel) -> None:
    panel.show_status(loading("target", 0.1))
    assert panel.isVisible()
    assert panel.headline.text() == "Preparing Tiny"
    assert panel.stage.text() == "Doing target"
    assert "not known yet" in panel.times.text()
    panel.show_status(loading("plain", 0.6, left_s=80.0))
    assert panel.bar.value() == 600
    assert "about 1:20 left" in panel.times.text()
    assert panel.times.text().startswith("0:02 so far")
    panel.show_status(PairStatus())


def test_each_program_has_its_stage_and_is_ready_when_the_next_begins(panel: PreparationPanel) -> None:
    panel.show_status(loading("programs", 0.2, kernels=KernelProgress("build", "ingest_r32", 1, 9, 0.1)))
    panel.show_status(loading("programs", 0.3, kernels=KernelProgress("compile", "layer0", 4, 9, 0.2)))
    panel.show_details.click()
    assert "✓ reading the target" in panel.details.text()
    assert "▸ preparing the draft's programs" in panel.details.text()
    assert "– measuring plain decoding" in panel.details.text()
    assert "ingest_r32: ready  ·  layer0: compiling" in panel.details.text()
    panel.show_status(loading("plain", 0.6))
    assert "layer0: ready" in panel.details.text()
    panel.show_status(PairStatus())


def test_what_was_found_out_stays_to_be_read(panel: PreparationPanel) -> None:
    panel.show_status(loading("programs", 0.2, note="They are made now."))
    panel.show_status(loading("programs", 0.3))
    panel.show_status(loading("programs", 0.4, note="Kept."))
    assert panel.notes.text() == "They are made now.\nKept."
    panel.show_status(PairStatus())


def test_a_check_can_be_skipped_and_a_second_press_is_harder(panel: PreparationPanel, qtbot: QtBot) -> None:
    panel.show_status(loading("costs", 0.8))
    assert panel.stop.text() == "Stop"
    panel.show_status(loading("check", 0.9))
    assert panel.stop.text() == "Skip the check"
    with qtbot.waitSignal(panel.stop_wanted):
        panel.stop.click()
    assert panel.stop.text() == "Stop now"
    panel.show_status(PairStatus(PairState.FAILED, "Tiny", problem=Problem("WorkerDied", "It ended.")))
    assert not panel.isVisible(), "what was asked for is no failure"


def test_a_failure_says_why_and_offers_another_try(panel: PreparationPanel, qtbot: QtBot) -> None:
    panel.show_status(loading("target", 0.1))
    panel.show_status(PairStatus(PairState.FAILED, "Tiny", problem=Problem("X", "It is cut off.", "Get it again.")))
    assert panel.headline.text() == "Tiny could not be loaded"
    assert panel.stage.text() == "It is cut off. Get it again."
    assert panel.bar.property("failed") is True
    with qtbot.waitSignal(panel.retry_wanted):
        panel.retry.click()
    panel.show_status(loading("target", 0.0))
    assert panel.bar.property("failed") is False
    assert not panel.retry.isVisible()
    panel.show_status(PairStatus())


def test_minutes_disk_and_the_sum_of_memory_come_before_consent(
    open_window: OpenWindow, on_disk: PairSources, qtbot: QtBot
) -> None:
    window = open_window(sources=lambda: on_disk)
    picker = ready_to_use(window, qtbot)
    card = picker._cards[FIRST]
    for words in ("on disk", "time not known yet", "target weights", "draft programs", "Together", "Free for it"):
        assert words in card.question.text()
    assert card.load.text() == "Prepare and use"
    card.dismiss.click()
    assert not card.load.isVisible()
    assert not card.check.isVisible()
    assert window._engine.status.name == PAIR.name


def test_the_reason_of_a_fall_back_keeps_the_picker_open(
    open_window: OpenWindow, on_disk: PairSources, qtbot: QtBot
) -> None:
    window = open_window("--no-programs", "The disk is full.", "--load-s", "0.5", sources=lambda: on_disk)
    picker = ready_to_use(window, qtbot)
    picker._cards[FIRST].load.click()
    panel = picker.preparation
    qtbot.waitUntil(lambda: "ready" in panel.headline.text(), timeout=WAIT_MS)
    assert picker.isVisible()
    assert panel.notes.text() == "The draft runs without its prepared programs: The disk is full."
    panel.close_button.click()
    assert not panel.isVisible()


def test_a_check_that_was_wished_tells_its_verdict(open_window: OpenWindow, on_disk: PairSources, qtbot: QtBot) -> None:
    window = open_window(sources=lambda: on_disk)
    picker = ready_to_use(window, qtbot)
    picker._cards[FIRST].check.click()
    picker._cards[FIRST].load.click()
    qtbot.waitUntil(lambda: "Checked" in picker.preparation.notes.text(), timeout=WAIT_MS)
    shown = picker.preparation.notes.text()
    assert "All answers are those of plain decoding, token for token." in shown
    assert "Plain decoding: equal 3 of 3, tok/s 20.0, tokens per step 1.00" in shown
    assert "CPU draft: equal 3 of 3" in shown  # as in the check's own window
    assert picker.isVisible()


def test_stop_ends_the_preparation_and_the_chat_goes_on(
    open_window: OpenWindow, on_disk: PairSources, qtbot: QtBot
) -> None:
    window = open_window("--load-s", "6", sources=lambda: on_disk)
    window.open_picker()
    picker = window.picker
    assert picker is not None
    qtbot.waitUntil(lambda: picker.preparation.is_busy and bool(picker.preparation.notes.text()), timeout=WAIT_MS)
    assert picker.preparation.notes.text() == "They are made now."
    picker.preparation.stop.click()
    qtbot.waitUntil(lambda: not picker.preparation.is_busy, timeout=WAIT_MS)
    assert not picker.preparation.isVisible()
    assert window._engine.status.state is PairState.NOT_READY
