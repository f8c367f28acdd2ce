"""The engine's work for chats, against a real child process."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from pytestqt.qtbot import QtBot

from app.engine import PairState
from app.generation import Answering, Ending, Generation, State
from core.errors import DemoTargetMissing
from core.pairs import Pair
from core.protocol import ChatMessage
from helpers.window import PAIR, WAIT_MS, MakeGeneration, ask

LONG = " ".join(f"word{number}" for number in range(400))
SLOW_PHASES = {
    "before the greeting": ("--hello-s", "0.4"),
    "while loading": ("--load-s", "30"),
    "before the first token": ("--prefill-s", "30"),
    "in mid answer": ("--answer", LONG, "--steps-per-second", "20"),
}


class Recorder:
    """Everything that is told, in order."""

    def __init__(self, generation: Generation) -> None:
        self.states: list[State] = []
        self.text = ""
        self.answers: list[Answering] = []
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

    def _start(self, _answering: Answering) -> None:
        self.started += 1


def ending(answering: Answering) -> Ending:
    assert answering.ending is not None
    return answering.ending


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
    answering = ask(generation)
    assert generation.current is answering
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.states == [State.LOADING, State.IDLE, State.PREFILL, State.ANSWERING, State.IDLE]
    assert recorder.text == answering.text == "Hello there, friend.\n"
    assert recorder.answers == [answering]
    assert ending(answering).state == "complete"
    done = ending(answering).done
    assert done is not None
    assert done.mode == "auto"
    assert generation.current is None


def test_the_text_of_a_continued_answer_grows(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--answer", " and the rest.")
    answering = Answering((ChatMessage("user", "Hi"), ChatMessage("assistant", "The begin")), text="The begin")
    generation.ask(answering)
    wait_for(qtbot, generation, State.IDLE)
    assert answering.text == "The begin and the rest."
    assert answering.new_text == recorder.text == " and the rest."


def test_a_question_asked_while_loading_waits_for_it(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--load-s", "0.3", "--answer", "Late.")
    recorder = Recorder(generation)
    generation.load()
    answering = ask(generation)
    assert recorder.started == 1
    assert generation.state_of(answering) is State.LOADING
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.states == [State.LOADING, State.PREFILL, State.ANSWERING, State.IDLE]
    assert recorder.text == "Late."


def test_questions_are_answered_one_after_the_other(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--echo")
    first, second = ask(generation, "One"), ask(generation, "Two")
    assert generation.state_of(first) is State.PREFILL
    assert generation.state_of(second) is State.WAITING
    qtbot.waitUntil(lambda: len(recorder.answers) == 2, timeout=WAIT_MS)
    assert (first.text, second.text) == ("user: One", "user: Two")
    assert recorder.answers == [first, second]
    assert recorder.started == 2
    wait_for(qtbot, generation, State.IDLE)


def test_a_question_that_waits_can_be_taken_back(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--answer", LONG, "--steps-per-second", "300")
    first, second = ask(generation), ask(generation)
    generation.stop(second)
    assert ending(second) == Ending("stopped")
    assert generation.state is not State.STOPPING
    generation.stop(second)  # again: it is over, and the first goes on
    wait_for(qtbot, generation, State.IDLE)
    assert first.text == LONG
    assert recorder.answers == [second, first]


def test_a_load_that_fails_fails_all_that_wait_for_it(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--fail-load")
    recorder = Recorder(generation)
    answers = [ask(generation), ask(generation), ask(generation)]
    wait_for(qtbot, generation, State.FAILED)
    assert [ending(answering).state for answering in answers] == ["failed"] * 3
    assert recorder.problems == ["UnreadableModel"]


def test_a_crash_fails_one_answer_and_the_next_is_given(
    make_generation: MakeGeneration, qtbot: QtBot, tmp_path: Path
) -> None:
    crash = ("--die-after-steps", "3", "--once", str(tmp_path / "crashed"))
    generation, recorder = loaded(make_generation, qtbot, "--answer", LONG, *crash)
    first, second = ask(generation), ask(generation)
    qtbot.waitUntil(lambda: len(recorder.answers) == 2, timeout=WAIT_MS)
    assert ending(first).state == "failed"
    assert LONG.startswith(first.text)
    assert first.text
    assert second.text == LONG
    assert recorder.problems == ["WorkerDied"]
    wait_for(qtbot, generation, State.IDLE)


def test_a_stop_of_the_load_takes_all_that_wait_along(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--load-s", "30")
    answers = [ask(generation), ask(generation)]
    generation.stop()
    wait_for(qtbot, generation, State.IDLE)
    assert [ending(answering) for answering in answers] == [Ending("stopped")] * 2


def test_a_question_stopped_while_loading_leaves_the_load_to_the_others(
    make_generation: MakeGeneration, qtbot: QtBot
) -> None:
    generation = make_generation("--load-s", "0.3", "--echo")
    first, second = ask(generation, "One"), ask(generation, "Two")
    generation.stop(first)
    assert generation.state is State.LOADING
    wait_for(qtbot, generation, State.IDLE)
    assert ending(first) == Ending("stopped")
    assert second.text == "user: Two"


def test_what_is_asked_while_a_load_stops_is_answered(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--load-s", "0.3", "--echo")
    generation.load()
    generation.stop()
    answering = ask(generation, "Still")
    qtbot.waitUntil(lambda: answering.ending is not None, timeout=WAIT_MS)
    assert answering.text == "user: Still"
    wait_for(qtbot, generation, State.IDLE)


@pytest.mark.parametrize("phase", SLOW_PHASES)
def test_stop_works_in_every_phase_and_the_next_message_works(
    make_generation: MakeGeneration, qtbot: QtBot, phase: str
) -> None:
    generation = make_generation(*SLOW_PHASES[phase])
    recorder = Recorder(generation)
    ask(generation)
    if phase == "before the first token":
        wait_for(qtbot, generation, State.PREFILL)
    if phase == "in mid answer":
        qtbot.waitUntil(lambda: len(recorder.text) > 20, timeout=WAIT_MS)
    generation.stop()
    assert generation.state is State.STOPPING
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.problems == []
    assert len(recorder.answers) == 1
    assert ending(recorder.answers[0]).state == "stopped"
    assert recorder.answers[0].text == recorder.text
    assert LONG.startswith(recorder.text)
    worker = pid(generation)
    ask(generation, "Again")
    qtbot.waitUntil(lambda: generation.state in (State.LOADING, State.PREFILL, State.ANSWERING), timeout=WAIT_MS)
    assert pid(generation) == worker


def test_a_stop_while_loading_with_a_message_waiting_drops_the_answer(
    make_generation: MakeGeneration, qtbot: QtBot
) -> None:
    generation = make_generation("--load-s", "30")
    recorder = Recorder(generation)
    generation.load()
    ask(generation)
    generation.stop()
    wait_for(qtbot, generation, State.IDLE)
    assert [ending(answer) for answer in recorder.answers] == [Ending("stopped")]
    assert status(generation) is PairState.NOT_READY


def test_a_worker_killed_in_mid_answer_is_told_and_the_text_so_far_is_kept(
    make_generation: MakeGeneration, qtbot: QtBot
) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--answer", LONG, "--steps-per-second", "50")
    ask(generation)
    qtbot.waitUntil(lambda: len(recorder.text) > 50, timeout=WAIT_MS)
    first = pid(generation)
    os.kill(first, signal.SIGKILL)
    wait_for(qtbot, generation, State.FAILED)
    assert recorder.problems == ["WorkerDied"]
    answer = recorder.answers[0]
    problem = ending(answer).problem
    assert problem is not None
    assert "SIGKILL" in problem.sentence
    assert answer.text == recorder.text
    assert LONG.startswith(answer.text)
    assert status(generation) is PairState.NOT_READY

    ask(generation, "Go on")
    wait_for(qtbot, generation, State.ANSWERING)
    assert pid(generation) != first


def test_a_worker_that_dies_at_once_fails_the_load(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--die-at-start")
    recorder = Recorder(generation)
    ask(generation)
    wait_for(qtbot, generation, State.FAILED)
    assert recorder.problems == ["WorkerDied"]
    assert status(generation) is PairState.FAILED


def test_closing_ends_answers_as_interrupted(
    make_generation: MakeGeneration, qtbot: QtBot, loop: asyncio.AbstractEventLoop
) -> None:
    generation, _ = loaded(make_generation, qtbot, "--answer", LONG, "--steps-per-second", "20")
    first, second = ask(generation), ask(generation)
    wait_for(qtbot, generation, State.ANSWERING)
    task = loop.create_task(generation.close())
    qtbot.waitUntil(task.done, timeout=WAIT_MS)
    assert [ending(first), ending(second)] == [Ending("interrupted")] * 2


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
    generation.load()
    assert generation.state is State.LOADING
    wait_for(qtbot, generation, State.FAILED)


def test_a_refused_request_leaves_the_pair_ready(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--fail-generate")
    ask(generation)
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
    generation.load()
    wait_for(qtbot, generation, State.IDLE)
    assert status(generation) is PairState.READY


def test_an_engine_that_does_not_heed_a_stop_is_ended_by_force(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--answer", LONG, "--steps-per-second", "5", "--deaf")
    worker = pid(generation)
    ask(generation)
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
    ask(generation)
    wait_for(qtbot, generation, State.ANSWERING, State.IDLE)
    assert recorder.problems == []


def test_unload_frees_the_pair_and_the_next_message_loads_it(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot)
    generation.unload()
    wait_for(qtbot, generation, State.IDLE)
    assert status(generation) is PairState.NOT_READY
    ask(generation)
    wait_for(qtbot, generation, State.IDLE)
    assert ending(recorder.answers[0]).done is not None


def test_a_mode_that_the_pair_lacks_falls_back_to_one_it_has(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--no-draft")
    ask(generation, mode="gpu")
    wait_for(qtbot, generation, State.IDLE)
    done = ending(recorder.answers[0]).done
    assert done is not None
    assert done.mode == "plain"


def test_the_chosen_mode_is_used(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot)
    ask(generation, mode="plain")
    wait_for(qtbot, generation, State.IDLE)
    done = ending(recorder.answers[0]).done
    assert done is not None
    assert done.mode == "plain"


def test_thinking_is_told_apart_and_stays_out_of_the_answer(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation, recorder = loaded(make_generation, qtbot, "--thinking", "Let me see.", "--answer", "Yes.")
    thoughts: list[str] = []
    generation.thinking_added.connect(thoughts.append)
    ask(generation, "Is it?")
    wait_for(qtbot, generation, State.IDLE)
    assert "".join(thoughts) == "Let me see."
    assert recorder.text == "Yes."
    assert recorder.answers[0].text == "Yes."
    assert recorder.answers[0].thinking == "Let me see."


def test_noise_on_the_workers_error_output_breaks_nothing(
    make_generation: MakeGeneration, qtbot: QtBot, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="worker")
    generation, recorder = loaded(make_generation, qtbot, "--garbage")
    ask(generation)
    wait_for(qtbot, generation, State.IDLE)
    assert recorder.problems == []
    assert "and a line" in caplog.text


@pytest.mark.parametrize("phase", SLOW_PHASES)
def test_closing_ends_the_worker_in_every_phase(make_generation: MakeGeneration, qtbot: QtBot, phase: str) -> None:
    generation = make_generation(*SLOW_PHASES[phase])
    ask(generation)
    qtbot.waitUntil(lambda: generation._engine.worker_pid is not None, timeout=WAIT_MS)
    if phase == "in mid answer":
        wait_for(qtbot, generation, State.ANSWERING)
    # The fixtures close the chat and fail if a process is left.


def test_a_process_that_is_gone_when_an_answer_begins_is_started_anew(
    make_generation: MakeGeneration, qtbot: QtBot
) -> None:
    generation = make_generation("--answer", "Here.")
    generation.load()
    wait_for(qtbot, generation, State.IDLE)
    engine = generation._engine
    engine._watch.stop()
    assert engine.worker_pid is not None
    os.kill(engine.worker_pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: engine.worker_pid is None, timeout=WAIT_MS)
    answering = ask(generation)
    engine._look_after_worker()  # before the request is sent
    wait_for(qtbot, generation, State.IDLE)
    assert (answering.text, ending(answering).state) == ("Here.", "complete")


def test_the_answer_behind_one_that_is_ended_by_force_is_given(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--answer", "word " * 40, "--steps-per-second", "50")
    recorder = Recorder(generation)
    first, second = ask(generation), ask(generation)
    wait_for(qtbot, generation, State.ANSWERING)
    generation.stop(first)
    generation.stop(first)
    qtbot.waitUntil(lambda: second.ending is not None, timeout=WAIT_MS)
    assert (ending(first).state, ending(second).state) == ("stopped", "complete")
    assert recorder.problems == []
