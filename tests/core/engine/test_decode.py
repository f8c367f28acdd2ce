"""The decode loop's conduct around an answer: closing, cancelling, origins of time, the first pass."""

from __future__ import annotations

from itertools import pairwise

import pytest

from core.engine.decode import Limits, decode
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.protocol import GenerateOptions
from helpers.decoding import forced_source, plain_source, run, serial_source
from helpers.tiny import BLOCK, tiny_drafter, tiny_target

PROMPT = [5, 17, 60, 3, 41]


@pytest.fixture(scope="module")
def drafter():
    return tiny_drafter(tiny_target())


@pytest.fixture(scope="module")
def target(drafter):
    return drafter._target


@pytest.fixture(params=["plain", "gpu"])
def make_source(request, drafter):
    return plain_source if request.param == "plain" else serial_source(drafter)


def begun(target, drafter, make_source, cancelled=lambda: False):
    session, sampler = Session(target, drafter), Sampler(GenerateOptions(), target.vocab_size)
    for _ in session.prefill(PROMPT, lambda: False):
        pass
    limits = Limits(1000, frozenset(), BLOCK)
    return session, decode(session, PROMPT[-1], make_source(session, sampler), sampler, limits, cancelled)


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_closing_early_undoes_queued_passes(target, drafter, make_source, steps):
    session, decoding = begun(target, drafter, make_source)
    tokens = [token for _ in range(steps) for token in next(decoding).tokens]
    decoding.close()
    assert session.tokens == (PROMPT + tokens)[:-1]
    assert session.length == session.context.length == len(session.tokens)


def test_cancelling_ends_the_answer_at_the_next_step(target, drafter, make_source):
    stop = False
    _, decoding = begun(target, drafter, make_source, lambda: stop)
    for _ in range(3):
        assert next(decoding).finish is None
    stop = True
    assert next(decoding).finish == "cancelled"
    assert list(decoding) == []


def test_the_first_pass_is_one_row_in_every_mode(target, drafter, make_source):
    first = run(target, drafter, PROMPT, make_source).steps[0]
    assert (first.mode, first.proposals, len(first.tokens)) == ("plain", (), 1)


def test_a_plain_step_is_one_token_without_draft(target, drafter):
    for step in run(target, drafter, PROMPT).steps:
        assert (step.mode, len(step.tokens), step.accepted, step.draft_busy) == ("plain", 1, 0, ())


def test_the_verification_is_cut_to_the_width_not_the_draft(target, drafter):
    whole = run(target, drafter, PROMPT, serial_source(drafter), width=8)
    cut = run(target, drafter, PROMPT, serial_source(drafter), width=3)
    assert max(len(step.proposals) for step in cut.steps) == 2
    assert cut.steps[1].proposals == whole.steps[1].proposals[:2]


def test_busy_spans_follow_each_other_and_idle_time_is_the_rest(target, drafter, make_source):
    steps = run(target, drafter, PROMPT, make_source).steps
    for before, step in pairwise(steps):
        free_s = before.done_s
        spans = [*step.draft_busy, *step.target_busy]
        for began_s, ended_s in spans:
            assert free_s <= began_s <= ended_s
            free_s = ended_s
        busy_s = sum(ended_s - began_s for began_s, ended_s in spans)
        wall_s = step.done_s - before.done_s
        assert step.host_ms == pytest.approx((wall_s - busy_s) * 1e3, abs=1e-6)


@pytest.mark.parametrize("right", range(BLOCK))
def test_accepted_counts_the_proposals_among_the_tokens(target, drafter, right):
    plain = run(target, drafter, PROMPT)
    eos_ids = frozenset([plain.tokens[20]])
    forced = run(target, drafter, PROMPT, forced_source(plain.tokens, len(PROMPT), right, BLOCK), eos_ids=eos_ids)
    for step in forced.steps:
        assert step.tokens[: step.accepted] == step.proposals[: step.accepted]
        assert len(step.tokens) - step.accepted in (0, 1)
