"""Replays take the steps that the engine takes: real answers of the demo pair, and cases made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from core.bench.prompts import PROMPTS
from core.bench.replay import Always, ReplayedStep, replay
from core.bench.trace import Trace, record_trace
from core.engine.anchors import RIGHT, UNTHOUGHT, Anchor, Answer, Guess, branch_keys
from core.engine.branches import Budget, Outcomes
from core.engine.controller import Choice, Controller, StepSeen
from core.engine.costs import Costs
from core.engine.decode import DecodeStep, Limits
from core.engine.measure import decode_anew
from core.engine.prompt import render_prompt
from core.protocol import ChatMessage, Mode

BLOCK = 8
WIDTHS = tuple(range(2, BLOCK + 1))
WRONG = (UNTHOUGHT,) * (BLOCK - 1)


def guess(right: int, masks: int = BLOCK - 1, then: int = UNTHOUGHT, certainty: float = 0.9) -> Guess:
    """So many right proposals, then one of this rank."""
    ranks = [*[RIGHT] * right, then, *[UNTHOUGHT] * masks][:masks]
    return Guess(tuple(ranks), (certainty,) * masks)


def answer(tokens: int, in_mlx: int, fresh: Guess, ahead_right: int, ended: bool = False) -> Answer:
    """The draft says the same at every token."""
    count = tokens - (1 if ended else BLOCK)
    anchors = [
        Anchor(
            guess(in_mlx).ranks,
            fresh,
            {(w, known): guess(ahead_right, masks) for w, known, masks in branch_keys(WIDTHS, BLOCK, tokens - index)},
        )
        for index in range(count)
    ]
    return Answer(tuple(range(tokens)), ended, tuple(anchors))


def trace_of(*answers: Answer) -> Trace:
    return Trace("by hand", "", BLOCK, WIDTHS, ("",) * len(answers), answers)


def steps_of(
    trace: Trace, mode: Mode, rows: int, columns: int = 64, budget: Budget | None = None
) -> list[ReplayedStep]:
    (steps,) = replay(trace, Always(Choice(mode, rows)), budget or Budget.flat(columns))
    return steps


def test_plain_and_serial_steps_give_what_each_form_of_the_draft_has_right():
    trace = trace_of(answer(28, 2, guess(4), 0))
    assert {(step.rows, step.accepted, step.tokens) for step in steps_of(trace, "plain", 1)} == {(1, 0, 1)}
    assert {(step.rows, step.accepted, step.tokens) for step in steps_of(trace, "gpu", 8)} == {(8, 2, 3)}
    assert {(step.rows, step.accepted, step.tokens) for step in steps_of(trace, "ane", 8)} == {(8, 4, 5)}
    assert {step.tokens for step in steps_of(trace, "ane", 3)} == {3}
    assert {step.branch for step in steps_of(trace, "ane", 3)} == {None}


def test_an_end_of_sequence_cuts_the_last_step():
    steps = steps_of(trace_of(answer(12, 7, guess(7), 0, ended=True)), "gpu", 8)
    assert [(step.accepted, step.tokens) for step in steps] == [(7, 8), (3, 3)]


def test_mirror_goes_on_with_the_block_of_the_branch_that_came_true():
    # All three proposals are right and so is the one behind them; what is drafted ahead has one right.
    steps = steps_of(trace_of(answer(60, 0, guess(7), 1)), "mirror", 4)
    assert (steps[0].branch, steps[0].tokens) == (None, 4)
    assert (steps[1].branch, steps[1].tokens) == ("hit", 2)
    assert steps[0].branches > 0


def test_mirror_drafts_anew_where_the_draft_did_not_think_of_the_outcome():
    steps = steps_of(trace_of(answer(60, 0, guess(1), 3)), "mirror", 4)
    assert {step.branch for step in steps[1:]} == {"miss"}
    assert {step.tokens for step in steps} == {2}


def test_a_correction_that_the_draft_thought_of_is_a_hit():
    first, second = (
        steps_of(trace_of(answer(60, 0, guess(1, then=rank), 3)), "mirror", 4)[1] for rank in (1, UNTHOUGHT)
    )
    assert (first.branch, second.branch) == ("hit", "miss")


def test_without_columns_the_rest_of_the_block_is_all_that_is_guessed():
    (right, rest, *_), wrong = (
        steps_of(trace_of(answer(60, 0, guess(right), 1)), "mirror", 4, columns=0) for right in (7, 1)
    )
    assert (right.branch, right.branches, right.tokens) == (None, 1, 4)
    assert (rest.branch, rest.branches, rest.tokens) == ("hit", 0, 4)
    assert {(step.branch, step.branches) for step in wrong[1:]} == {("miss", 1)}


def test_a_block_drafted_ahead_may_be_shorter_than_a_verification():
    steps = steps_of(trace_of(answer(600, 0, guess(5, then=1), 1)), "mirror", 8)
    assert {(step.rows, step.tokens) for step in steps if step.branch == "hit"} == {(2, 2)}
    assert {(step.rows, step.tokens) for step in steps if step.branch != "hit"} == {(8, 6)}


def test_the_choice_that_corrections_tend_to_be_is_learned():
    steps = steps_of(trace_of(answer(600, 0, guess(1, then=4), 0)), "mirror", 4, columns=16)
    assert {step.branch for step in steps[1:5]} == {"miss"}
    assert {step.branch for step in steps[-20:-10]} == {"hit", "miss"}


def test_what_was_drafted_ahead_is_dropped_when_another_mode_takes_over():
    class Turns(Always):
        def choose(self, most_rows: int, depth: int) -> Choice:  # noqa: ARG002
            self.modes.reverse()
            return Choice(self.modes[0], 4)

        modes: ClassVar[list[Mode]] = ["ane", "mirror"]

    (steps,) = replay(trace_of(answer(60, 0, guess(7), 1)), Turns(Choice("plain", 1)), Budget.flat(64))
    assert {(step.mode, step.branch) for step in steps} == {("mirror", None), ("ane", None)}


def test_the_controller_is_told_of_every_step_but_the_last_of_an_answer():
    told: list[tuple[int, float]] = []

    class Listening(Always):
        def observe(self, step: StepSeen) -> None:
            told.append((step.accepted, step.took_ms))

    trace = trace_of(answer(28, 2, guess(4), 0), answer(28, 1, guess(4), 0))
    first, second = replay(trace, Listening(Choice("gpu", 8)), Budget.flat(0), lambda step: float(step.tokens))
    assert told == [(2, 3.0)] * (len(first) - 1) + [(1, 2.0)] * (len(second) - 1)


def test_the_engines_controller_leaves_a_draft_that_loses_and_keeps_one_that_wins():
    def modes(right: int, draft_ms: float) -> list[Mode]:
        trace = trace_of(answer(400, 0, guess(right), 0))
        plan = Controller(Costs((10.0,) * BLOCK, (0.0,) * BLOCK, {"ane": draft_ms}))
        (steps,) = replay(trace, plan, Budget.flat(0), lambda step: 10.0 + draft_ms * (step.mode == "ane"))
        return [step.mode for step in steps]

    losing, winning = modes(0, 15.0), modes(6, 5.0)
    assert losing[-100:].count("plain") > 90
    assert set(winning[-20:]) == {"ane"}


# ------------------------------------------------------------ the real engine


@pytest.fixture(scope="module")
def real(demo):
    return record_trace(demo, [PROMPTS[10], PROMPTS[21]], 40)


def real_steps(demo, trace: Trace, index: int, mode: Mode, rows: int) -> list[DecodeStep]:
    ids = render_prompt(demo.tokenizer, [ChatMessage("user", trace.prompts[index])]).ids
    demo.programs.outcomes = Outcomes()
    steps = decode_anew(demo, ids, mode, Limits(40, demo.tokenizer.eos_ids, rows))
    assert tuple(token for step in steps for token in step.tokens) == trace.answers[index].tokens
    return steps[1:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "rows"), [("plain", 1), ("gpu", 8), ("gpu", 3), ("ane", 5), ("mirror", 8), ("mirror", 4)]
)
def test_replayed_steps_are_those_of_the_engine(demo, real, mode, rows):
    for index, each in enumerate(real.answers):
        alone = replace(real, prompts=real.prompts[index : index + 1], answers=(each,))
        replayed = steps_of(alone, mode, rows, budget=demo.programs.budget)
        steps = real_steps(demo, real, index, mode, rows)[: len(replayed)]
        assert [(step.mode, step.rows, step.accepted, step.tokens, step.branch) for step in replayed] == [
            (step.mode, len(step.proposals) + 1, step.accepted, len(step.tokens), step.branch) for step in steps
        ]
        # What was drafted for beside a verification is told by the step after it.
        assert [step.branches for step in replayed[:-1]] == [step.branches for step in steps[1:]]
        assert sum(step.accepted for step in replayed) > 0 or mode == "plain"
