"""The state machine of a chat, against a real child process."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from pytestqt.qtbot import QtBot

from app.engine import PairState
from app.generation import Answer, Generation, State
from core.errors import DemoTargetMissing
from core.pairs import Pair
from core.protocol import ChatMessage
from helpers.window import PAIR, WAIT_MS, MakeGeneration

LONG = " ".join(f"word{number}" for number in range(400))
SLOW_PHASES = {
    "before the greeting": ("--hello-s", "0.4"),
    "while loading": ("--load-s", "30"),
    "before the first token": ("--prefill-s", "30"),
    "in mid answer": ("--answer", LONG, "--steps-per-second", "20"),
}


class Recorder:
    """Everything a chat tells, in order."""

    def __init__(self, generation: Generation) -> None:
        self.states: list[State] = []
        self.text = ""
        self.answers: list[Answer] = []
        self.problems: list[str] = []
        self.started = 0
        self.generation = generation
        generation.state_changed.connect(self.states.append)
        generation.text_added.connect(self._add)
        generation.answer_ended.connect(self.answers.append)
        generation.failed.connect(lambda problem: self.problems.append(problem.kind))
        generation.answer_started.connect(self._start)

    def _add(self, text: str) -> None:
        self.text += text

    def _start(self) -> None:
        self.started += 1


def wait_for(qtbot: QtBot, generation: Generation, *states: State) -> None:
    qtbot.waitUntil(lambda: generation.state in states, timeout=WAIT_MS)


def loaded(make: MakeGeneration, qtbot: QtBot, *options: str) -> tuple[Generation, Recorder]:
    generation = make(*options)
    recorder = Recorder(generation)
    generation.load()
    wait_for(qtbot, generation, State.IDLE)
    return generation, recorder


def status(generation: Generation) -> PairState:
    return generation._engine.status.state


def pid(generation: Generation) -> int:
    pid = generation._engine.worker_pid
    assert pid is not None
    return pid


def test_load_and_answer_go_through_the_states(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--answer", "Hello there, friend.\n")
    assert status(generation) is PairState.READY
    assert generation.send("Hi")
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.states == [State.LOADING, State.IDLE, State.PREFILL, State.ANSWERING, State.IDLE]
    assert recorder.text == "Hello there, friend.\n"
    assert recorder.answers[0].done is not None
    assert recorder.answers[0].done.mode == "auto"
    assert generation.conversation.messages == (
        ChatMessage("user", "Hi"),
        ChatMessage("assistant", "Hello there, friend.\n"),
    )


def test_the_whole_conversation_is_sent_each_time(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--echo")
    for text in ("One", "Two"):
        generation.send(text)
        wait_for(qtbot, generation, State.IDLE)
    assert recorder.answers[1].text == "user: One\n\nassistant: user: One\n\nuser: Two"


def test_a_message_sent_while_loading_waits_for_it(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--load-s", "0.3", "--answer", "Late.")
    recorder = Recorder(generation)
    generation.load()
    assert generation.send("Hi")
    assert recorder.started == 1
    assert not generation.accepts_message
    assert not generation.send("Hi again")
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.states == [State.LOADING, State.PREFILL, State.ANSWERING, State.IDLE]
    assert recorder.text == "Late."


def test_no_message_is_taken_while_an_answer_is_written(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, _ = loaded(make_generation, qtbot, "--answer", LONG, "--steps-per-second", "20")
    generation.send("Hi")
    wait_for(qtbot, generation, State.ANSWERING)
    assert not generation.send("And?")
    assert not generation.send("   ")


@pytest.mark.parametrize("phase", SLOW_PHASES)
def test_stop_works_in_every_phase_and_the_next_message_works(
    make_generation: MakeGeneration, qtbot: QtBot, phase: str
) -> None:
    generation = make_generation(*SLOW_PHASES[phase])
    recorder = Recorder(generation)
    generation.send("Hi")
    if phase == "before the first token":
        wait_for(qtbot, generation, State.PREFILL)
    if phase == "in mid answer":
        qtbot.waitUntil(lambda: len(recorder.text) > 20, timeout=WAIT_MS)
    generation.stop()
    assert generation.state is State.STOPPING
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.problems == []
    assert len(recorder.answers) == 1
    assert recorder.answers[0].problem is None
    kept = generation.conversation.messages
    if phase == "in mid answer":
        assert kept[1] == ChatMessage("assistant", recorder.text)
        assert LONG.startswith(recorder.text)
    else:
        assert kept == (ChatMessage("user", "Hi"),)
    worker = pid(generation)
    assert generation.send("Again")
    qtbot.waitUntil(lambda: generation.state in (State.LOADING, State.PREFILL, State.ANSWERING), timeout=WAIT_MS)
    assert pid(generation) == worker


def test_a_stop_while_loading_with_a_message_waiting_drops_the_answer(
    make_generation: MakeGeneration, qtbot: QtBot
) -> None:
    generation = make_generation("--load-s", "30")
    recorder = Recorder(generation)
    generation.load()
    generation.send("Hi")
    generation.stop()
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.answers == [Answer("")]
    assert status(generation) is PairState.NOT_READY


def test_a_worker_killed_in_mid_answer_is_told_and_the_text_so_far_is_kept(
    make_generation: MakeGeneration, qtbot: QtBot
) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--answer", LONG, "--steps-per-second", "50")
    generation.send("Hi")
    qtbot.waitUntil(lambda: len(recorder.text) > 50, timeout=WAIT_MS)
    first = pid(generation)
    os.kill(first, signal.SIGKILL)
    wait_for(qtbot, generation, State.FAILED)
    assert recorder.problems == ["WorkerDied"]
    answer = recorder.answers[0]
    assert answer.problem is not None
    assert "SIGKILL" in answer.problem.sentence
    assert answer.text == recorder.text
    assert LONG.startswith(answer.text)
    assert status(generation) is PairState.NOT_READY

    assert generation.send("Go on")
    wait_for(qtbot, generation, State.ANSWERING)
    assert pid(generation) != first
    assert [message.role for message in generation.conversation.messages] == ["user", "assistant", "user"]


def test_retry_after_a_crash_answers_the_same_question_again(
    make_generation: MakeGeneration, qtbot: QtBot, tmp_path: Path
) -> None:
    crash = ("--die-after-steps", "3", "--once", str(tmp_path / "crashed"))
    generation, recorder = loaded(make_generation, qtbot, "--answer", LONG, *crash)
    generation.send("Hi")
    wait_for(qtbot, generation, State.FAILED)
    assert recorder.answers[0].text
    generation.retry()
    wait_for(qtbot, generation, State.IDLE, State.FAILED)
    assert recorder.answers[1].text == LONG
    assert generation.conversation.messages == (ChatMessage("user", "Hi"), ChatMessage("assistant", LONG))


def test_a_worker_that_dies_at_once_fails_the_load(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--die-at-start")
    recorder = Recorder(generation)
    generation.send("Hi")
    wait_for(qtbot, generation, State.FAILED)
    assert recorder.problems == ["WorkerDied"]
    assert status(generation) is PairState.FAILED


def test_a_pair_that_cannot_load_says_why_and_can_be_tried_again(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--fail-load")
    recorder = Recorder(generation)
    generation.load()
    wait_for(qtbot, generation, State.FAILED)
    assert recorder.problems == ["UnreadableModel"]
    assert recorder.answers == []
    problem = generation._engine.status.problem
    assert problem is not None
    assert problem.sentence == "The target's file is cut off."
    generation.retry()
    assert generation.state is State.LOADING
    wait_for(qtbot, generation, State.FAILED)


def test_a_refused_request_leaves_the_pair_ready(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--fail-generate")
    generation.send("Hi")
    wait_for(qtbot, generation, State.FAILED)
    assert recorder.problems == ["PromptTooLong"]
    assert status(generation) is PairState.READY


def test_without_a_pair_the_load_fails_with_the_reason(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    found: list[Pair] = []

    def choose() -> Pair:
        if not found:
            raise DemoTargetMissing("The demo model is not installed.", "Install it.")
        return found[0]

    generation = make_generation(choose_pair=choose)
    recorder = Recorder(generation)
    generation.load()
    wait_for(qtbot, generation, State.FAILED)
    assert recorder.problems == ["DemoTargetMissing"]
    found.append(PAIR)
    generation.retry()
    wait_for(qtbot, generation, State.IDLE)
    assert status(generation) is PairState.READY


@pytest.mark.parametrize("options", [(), ("--prefill-s", "30"), ("--answer", LONG, "--steps-per-second", "20")])
def test_clear_drops_the_answer_under_way(
    make_generation: MakeGeneration, qtbot: QtBot, options: tuple[str, ...]
) -> None:
    generation, recorder = loaded(make_generation, qtbot, *options)
    generation.send("Hi")
    if "--answer" in options:
        wait_for(qtbot, generation, State.ANSWERING)
    generation.clear()
    shown = recorder.text
    steps: list[object] = []
    generation.stepped.connect(steps.append)
    wait_for(qtbot, generation, State.IDLE)
    assert generation.conversation.messages == ()
    assert recorder.answers == []
    assert recorder.text == shown
    assert steps == []
    assert status(generation) is PairState.READY


def test_clear_while_loading_goes_on_loading(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--load-s", "0.3")
    recorder = Recorder(generation)
    generation.load()
    generation.send("Hi")
    generation.clear()
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.states == [State.LOADING, State.IDLE]
    assert status(generation) is PairState.READY


def test_an_engine_that_does_not_heed_a_stop_is_ended_by_force(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--answer", LONG, "--steps-per-second", "5", "--deaf")
    worker = pid(generation)
    generation.send("Hi")
    wait_for(qtbot, generation, State.ANSWERING)
    generation.stop()
    generation.stop()
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.problems == []
    assert not psutil.pid_exists(worker)
    assert status(generation) is PairState.NOT_READY


def test_an_idle_worker_that_is_killed_shows_as_not_ready_and_the_next_message_works(
    make_generation: MakeGeneration, qtbot: QtBot
) -> None:
    generation, recorder = loaded(make_generation, qtbot)
    memories: list[Any] = []
    generation._engine.memory_changed.connect(memories.append)
    qtbot.waitUntil(lambda: memories != [], timeout=WAIT_MS)
    os.kill(pid(generation), signal.SIGKILL)
    qtbot.waitUntil(lambda: status(generation) is PairState.NOT_READY, timeout=WAIT_MS)
    assert memories[-1] is None
    generation.send("Hi")
    wait_for(qtbot, generation, State.ANSWERING, State.IDLE)
    assert recorder.problems == []


def test_unload_frees_the_pair_and_the_next_message_loads_it(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot)
    generation.unload()
    wait_for(qtbot, generation, State.IDLE)
    assert status(generation) is PairState.NOT_READY
    generation.send("Hi")
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.answers[0].done is not None


def test_a_mode_that_the_pair_lacks_falls_back_to_one_it_has(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--no-draft")
    generation.set_mode("gpu")
    generation.send("Hi")
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.answers[0].done is not None
    assert recorder.answers[0].done.mode == "plain"


def test_the_chosen_mode_is_used(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot)
    generation.set_mode("plain")
    generation.send("Hi")
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.answers[0].done is not None
    assert recorder.answers[0].done.mode == "plain"


def test_thinking_is_told_apart_and_stays_out_of_the_conversation(
    make_generation: MakeGeneration, qtbot: QtBot
) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--thinking", "Let me see.", "--answer", "Yes.")
    thoughts: list[str] = []
    generation.thinking_added.connect(thoughts.append)
    generation.send("Is it?")
    wait_for(qtbot, generation, State.IDLE)
    assert "".join(thoughts) == "Let me see."
    assert recorder.text == "Yes."
    assert generation.conversation.messages[1].content == "Yes."


def test_noise_on_the_workers_error_output_breaks_nothing(
    make_generation: MakeGeneration, qtbot: QtBot, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="worker")
    generation, recorder = loaded(make_generation, qtbot, "--garbage")
    generation.send("Hi")
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.problems == []
    assert "and a line" in caplog.text


@pytest.mark.parametrize("phase", SLOW_PHASES)
def test_closing_ends_the_worker_in_every_phase(make_generation: MakeGeneration, qtbot: QtBot, phase: str) -> None:
    generation = make_generation(*SLOW_PHASES[phase])
    generation.send("Hi")
    qtbot.waitUntil(lambda: generation._engine.worker_pid is not None, timeout=WAIT_MS)
    if phase == "in mid answer":
        wait_for(qtbot, generation, State.ANSWERING)
    # The fixtures close the chat and fail if a process is left.
