"""The race's window, with the stand-in engine."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.generation import State
from app.main_window import MainWindow
from app.race.race_model import RaceState
from app.race.race_window import RaceWindow
from app.race.recording import Recording
from app.race.replay import Replay
from helpers.steps import step
from helpers.window import WAIT_MS, OpenWindow

ANSWER = "one two three four five six seven eight nine ten eleven twelve"


def opened(window: MainWindow, qtbot: QtBot) -> RaceWindow:
    qtbot.waitUntil(lambda: window.pair_button.state_text == "ready", timeout=WAIT_MS)
    window.tools.open_race()
    assert window.tools.race is not None
    return window.tools.race


def recorded() -> Recording:
    """Sixty seconds of one token a second."""
    recording = Recording("gpu")
    for second in range(60):
        recording.add(step(float(second), second + 1, 1))
    return recording


def until(qtbot: QtBot, race: RaceWindow, *states: RaceState) -> None:
    qtbot.waitUntil(lambda: race._model.state in states, timeout=WAIT_MS)


def test_a_race_ends_with_the_same_text_and_the_speeds_of_both(open_window: OpenWindow, qtbot: QtBot) -> None:
    race = opened(open_window("--answer", ANSWER, "--steps-per-second", "60"), qtbot)
    race.mode.setCurrentIndex(race._modes.index("gpu"))
    qtbot.keyClick(race.start, Qt.Key.Key_Space)
    until(qtbot, race, RaceState.LEFT)
    assert race.right.line.full_text() == "Waits for its turn"
    until(qtbot, race, RaceState.DONE)
    assert race.verdict.text() == ""  # the end is not told before it has been seen
    assert race.status.text() == "Both on one clock, as they were."
    race.skip.click()
    assert race.left.text.toPlainText() == race.right.text.toPlainText() == ANSWER
    assert race.verdict.text().startswith("Same text: 12 tokens, token for token. CPU draft: ")
    assert "times the speed of plain decoding" in race.verdict.text()
    assert race.verdict.property("dress") == "good"
    assert race.left.line.full_text().endswith("done")
    assert "tokens of the prompt read" in race.left.first_token.full_text()
    race.copy.click()
    copied = QGuiApplication.clipboard().text()
    assert race.verdict.text() in copied
    assert copied.endswith(ANSWER)


def test_both_sides_are_asked_the_same_with_the_same_seed(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = open_window("--echo")
    race = opened(window, qtbot)
    race.prompt.setPlainText("  Why?  ")
    race.start.click()
    until(qtbot, race, RaceState.DONE)
    race.skip.click()
    assert race.left.text.toPlainText() == race.right.text.toPlainText() == "user: Why?"


def test_the_first_difference_is_shown_with_both_words(open_window: OpenWindow, qtbot: QtBot) -> None:
    race = opened(open_window("--answer", "one two three", "--differ"), qtbot)
    race.start.click()
    until(qtbot, race, RaceState.DONE)
    race.skip.click()
    assert race.verdict.text().startswith(
        "First difference at token 3: plain decoding said ' three', Auto said ' otherw'."
    )
    assert race.verdict.property("dress") == "bad"
    race.copy.click()
    assert "one two three\n\nAuto:\none two otherwise" in QGuiApplication.clipboard().text()


def test_the_replay_shows_both_sides_on_one_clock(open_window: OpenWindow, qtbot: QtBot) -> None:
    race = opened(open_window("--answer", ANSWER, "--steps-per-second", "60"), qtbot)
    race.start.click()
    until(qtbot, race, RaceState.DONE)
    race.skip.click()
    left, right = race._model.left, race._model.right
    assert right.end_s < left.end_s  # several tokens a step
    race.replay.stop()
    for time_s in (0.0, right.end_s / 2, right.end_s, left.end_s):
        race._show_at(time_s)
        assert race.left.text.toPlainText() == left.text[: left.at(time_s).length]
        assert race.right.text.toPlainText() == right.text[: right.at(time_s).length]
    race._show_at(right.end_s)
    assert race.right.line.full_text().endswith("done")
    assert not race.left.line.full_text().endswith("done")
    race.again.click()
    assert race.replay.running
    assert race.verdict.text() == ""
    qtbot.waitSignal(race.replay.ended, timeout=WAIT_MS).wait()
    assert race.verdict.text().startswith("Same text")


def test_a_race_can_be_stopped_on_either_side(open_window: OpenWindow, qtbot: QtBot) -> None:
    race = opened(open_window("--answer", "word " * 100, "--steps-per-second", "50"), qtbot)
    for side, recording in ((RaceState.LEFT, "left"), (RaceState.RIGHT, "right")):
        race.start.click()
        until(qtbot, race, side)
        qtbot.waitUntil(lambda name=recording: len(getattr(race._model, name).token_ids) > 3, timeout=WAIT_MS)  # type: ignore[misc]
        race.stop.click()
        until(qtbot, race, RaceState.STOPPED)
        assert race.verdict.text() == "Stopped before both sides had ended: no verdict."
        assert race.left.text.toPlainText()
        assert not race.replay.running
        assert race.start.isEnabled()
        assert (race.right.line.full_text() == "Did not run") is (side is RaceState.LEFT)


def test_a_race_needs_a_prompt_a_pair_and_a_draft(open_window: OpenWindow, qtbot: QtBot) -> None:
    race = opened(open_window(), qtbot)
    race.prompt.setPlainText(" ")
    race.start.click()
    assert race.notice.sentence.text() == "A race needs a prompt."
    plain_only = opened(open_window("--no-draft"), qtbot)
    assert plain_only.mode.count() == 0
    plain_only.start.click()
    assert plain_only.notice.sentence.text() == "This pair has plain decoding only."
    failed = open_window("--fail-load")
    qtbot.waitUntil(lambda: failed.generation.state is State.FAILED, timeout=WAIT_MS)
    failed.tools.open_race()
    assert failed.tools.race is not None
    failed.tools.race.start.click()
    assert failed.tools.race.notice.sentence.text() == "No pair is loaded."


def test_race_answer_and_check_refuse_each_other_politely(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = open_window("--answer", "word " * 100, "--steps-per-second", "30")
    race = opened(window, qtbot)
    window.chats.send("Hello")
    qtbot.waitUntil(lambda: window.generation.state is State.ANSWERING, timeout=WAIT_MS)
    race.start.click()
    assert race.notice.sentence.text().startswith("An answer is under way")
    window.generation.stop()
    qtbot.waitUntil(lambda: window.generation.state is State.IDLE, timeout=WAIT_MS)
    race.start.click()
    assert not race.notice.isVisible()
    until(qtbot, race, RaceState.LEFT)
    window.tools.open_check()
    assert window.tools.check is not None
    window.tools.check.start.click()
    assert window.tools.check.notice.sentence.text().startswith("A race is under way")
    window.chats.send("Hello again")
    qtbot.waitUntil(lambda: window.generation.state is State.FAILED, timeout=WAIT_MS)
    assert "A race is under way" in window.notice.sentence.text()
    assert race._model.running
    race.stop.click()
    until(qtbot, race, RaceState.STOPPED)


def test_a_refused_side_and_a_dead_engine_are_told(open_window: OpenWindow, qtbot: QtBot) -> None:
    race = opened(open_window("--fail-generate"), qtbot)
    race.start.click()
    until(qtbot, race, RaceState.FAILED)
    assert race.notice.sentence.text() == "The conversation is too long."
    dead = opened(open_window("--answer", "word " * 50, "--die-after-steps", "5"), qtbot)
    dead.start.click()
    until(qtbot, dead, RaceState.FAILED)
    assert "SIGKILL" in dead.notice.sentence.text()
    assert dead.verdict.text() == "The race broke off: no verdict."
    assert dead.left.text.toPlainText()
    assert dead.right.line.full_text() == "Did not run"


def test_closing_the_window_stops_race_and_replay(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = open_window("--answer", "word " * 100, "--steps-per-second", "50")
    race = opened(window, qtbot)
    race.start.click()
    until(qtbot, race, RaceState.LEFT)
    race.close()
    until(qtbot, race, RaceState.STOPPED)
    assert not race.replay.running
    window.tools.open_race()
    race._model.left, race._model.right = recorded(), recorded()
    race._replay()
    assert race.replay.running
    race.close()
    assert not race.replay.running


def test_the_main_window_can_be_closed_in_the_middle_of_a_race(open_window: OpenWindow, qtbot: QtBot) -> None:
    race = opened(open_window("--answer", "word " * 100, "--steps-per-second", "10"), qtbot)
    race.start.click()
    until(qtbot, race, RaceState.LEFT)  # the fixture closes the window and looks for what is left over


def test_everything_is_named_for_screen_readers(open_window: OpenWindow, qtbot: QtBot) -> None:
    race = opened(open_window(), qtbot)
    for widget in (race.prompt, race.mode, race.tokens, race.seed, race.temperature, race.left.text, race.right.text):
        assert widget.accessibleName()
        assert widget.focusPolicy() & Qt.FocusPolicy.TabFocus


def test_the_clock_runs_in_real_time_to_its_end(qtbot: QtBot) -> None:
    times_s = [100.0, 100.5, 101.5, 102.5]
    replay = Replay(clock=lambda: times_s.pop(0) if times_s else 200.0)
    shown: list[float] = []
    replay.moved.connect(shown.append)
    replay.start(2.0)
    for _ in range(3):
        replay.advance()
    assert shown == pytest.approx([0.0, 0.5, 1.5, 2.0])
    assert not replay.running
    replay.skip()
    assert len(shown) == 4
    with qtbot.waitSignal(replay.ended):
        replay.start(5.0)
        replay.skip()
