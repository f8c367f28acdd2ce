"""Answers that are decoded in turns, each by its own clock, on the tiny pair."""

from __future__ import annotations

import time

import pytest

from core.bench.side_by_side import decode_side_by_side, long_answer_rows
from core.engine.decode import Limits
from core.engine.loader import load_pair_now
from core.engine.measure import decode_anew
from core.engine.step_figures import tokens_of
from core.protocol import GenerateOptions

PROMPT = [5, 8, 13]
MODES = ("plain", "gpu", "ane", "mirror", "auto")


@pytest.fixture
def loaded(tiny_pair):
    return load_pair_now(tiny_pair)


@pytest.mark.parametrize("temperature", [0.0, 3.0])
def test_answers_in_turns_are_those_of_answers_by_themselves(loaded, temperature):
    options = GenerateOptions(temperature=temperature, seed=3)
    alone = tokens_of(decode_anew(loaded, PROMPT, "plain", Limits(43, frozenset(), loaded.most_rows), options))
    answers = decode_side_by_side(loaded, PROMPT, MODES, 43, options, turn_tokens=7)
    assert [tokens_of(steps) for steps in answers] == [alone] * len(MODES)
    assert all(steps[-1].finish == "length" for steps in answers)


def test_the_clock_of_an_answer_stands_while_others_are_decoded(loaded):
    clock = time.perf_counter
    began_s = clock()
    answers = decode_side_by_side(loaded, PROMPT, ("plain",) * 4, 60, GenerateOptions(), turn_tokens=5)
    took_s = clock() - began_s
    assert time.perf_counter is clock
    assert sum(steps[-1].done_s - steps[0].done_s for steps in answers) < took_s
    for steps in answers:
        done_s = [step.done_s for step in steps]
        assert done_s == sorted(done_s)


def test_auto_is_held_against_plain_over_long_answers(loaded):
    speeds = {each.name: each for each in long_answer_rows(loaded, [PROMPT, [34, 55]], runs=2)}
    assert list(speeds) == [
        "auto: 200 tokens of chat: speed",
        "auto: 200 tokens of chat: against plain, by answer",
        "plain: 200 tokens of chat: against itself, by answer",
        "auto: 200 tokens of chat: lost by drafting",
        "auto: 200 tokens of random words: speed",
        "auto: 200 tokens of random words: against plain, by answer",
        "plain: 200 tokens of random words: against itself, by answer",
        "auto: 200 tokens of random words: lost by drafting",
    ]
    for each in speeds.values():
        assert each.spread[0] <= each.value <= each.spread[1]
        assert each.value > 0 or each.unit == "%"
