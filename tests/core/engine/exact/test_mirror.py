"""Drafting with programs changes no token and no state, whatever comes true of what was drafted for."""

from __future__ import annotations

import random

import numpy as np
import pytest

from core.engine.decode import Limits, decode
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.sources import PlainSource, SerialSource
from core.protocol import GenerateOptions
from helpers.decoding import run
from helpers.programs import ScriptedSampler, TinyPrograms
from helpers.random_drafts import SECOND
from helpers.tiny import BLOCK

PROMPT = [3, 14, 15, 9, 26]
TOKENS = 40


PUBLISHED = {"layer_types": ("sliding_attention",) * 2, "sliding_window": 20, "is_causal": False}


@pytest.fixture(scope="module", params=[{}, {**SECOND, **PUBLISHED}], ids=["first generation", "second"])
def tiny(request, tmp_path_factory):
    made = TinyPrograms(tmp_path_factory.mktemp("programs") / "draft", **request.param)
    yield made
    made.thread.close()


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["greedy", "seeded"])
def options(request):
    return GenerateOptions(temperature=request.param, seed=5)


@pytest.fixture(scope="module")
def plain(tiny, options):
    return run(tiny.target, tiny.in_mlx, PROMPT, max_tokens=TOKENS, temperature=options.temperature, seed=options.seed)


def target_state(session):
    caches = session._transaction.caches
    return [np.array(part[..., : cache.offset, :]) for cache in caches for part in (cache.keys, cache.values)]


def answer(tiny, options, make_source, width=BLOCK, scripted=lambda sampler: sampler):
    session, sampler = Session(tiny.target, tiny.in_mlx), Sampler(options, tiny.target.vocab_size)
    for _ in session.prefill(PROMPT, lambda: False):
        pass
    source = make_source(session, scripted(sampler))
    steps = list(decode(session, PROMPT[-1], source, sampler, Limits(TOKENS, frozenset(), width)))
    return session, steps


def check(session, steps, plain):
    assert [token for step in steps for token in step.tokens] == plain.tokens
    assert session.tokens == plain.session.tokens
    assert session.context.length == session.length
    for mine, theirs in zip(target_state(session), target_state(plain.session), strict=True):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("kind", ["ane", "mirror"])
@pytest.mark.parametrize("width", range(2, BLOCK + 1))
def test_a_random_draft_at_every_width(tiny, options, plain, kind, width):
    check(*answer(tiny, options, getattr(tiny, kind), width), plain)


def test_random_outcomes_are_sometimes_guessed(tiny, options, plain):
    branches = set()
    for seed in range(4):
        chance = random.Random(seed)
        tiny.expect(2)
        scripted = lambda sampler, chance=chance: ScriptedSampler(  # noqa: E731
            sampler, plain.tokens, len(PROMPT), lambda _: chance.randrange(BLOCK), lambda _: chance.random() < 0.7
        )
        session, steps = answer(tiny, options, tiny.mirror, BLOCK - 1, scripted)
        check(session, steps, plain)
        branches |= {step.branch for step in steps}
    assert {"hit", "miss"} <= branches


@pytest.mark.parametrize("hits", ["forced", "none"])
@pytest.mark.parametrize("right", range(BLOCK - 1))
def test_hits_and_misses_for_every_number_of_accepted_tokens(tiny, options, plain, right, hits):
    tiny.expect(right)
    session, steps = answer(
        tiny,
        options,
        tiny.mirror,
        BLOCK - 1,
        lambda sampler: ScriptedSampler(
            sampler, plain.tokens, len(PROMPT), lambda _: right, lambda _: hits == "forced"
        ),
    )
    check(session, steps, plain)
    guessed = {step.branch for step in steps[2:-1]}
    assert guessed
    if hits == "forced" and right < BLOCK - 2:  # beyond, masks would stand where the draft was not trained
        assert "hit" in guessed
        # A block behind many accepted tokens is short: accepted whole, it has no token left to guess by.
        assert guessed == {"hit"} or right > 2
    if hits == "none" and right < BLOCK - 2:
        assert guessed == {"miss"}


def test_sources_that_take_turns_leave_the_state_of_plain_decoding(tiny, options, plain):
    session, sampler = Session(tiny.target, tiny.in_mlx), Sampler(options, tiny.target.vocab_size)
    for _ in session.prefill(PROMPT, lambda: False):
        pass
    tokens, turn = [], 0
    makers = [
        tiny.mirror,
        lambda session, sampler: SerialSource(session, tiny.in_mlx, sampler),
        tiny.ane,
        lambda *_: PlainSource(),
        tiny.mirror,
    ]
    while len(tokens) < TOKENS:
        source = makers[turn % len(makers)](session, sampler)
        anchor = [*PROMPT, *tokens][-1]
        decoding = decode(session, anchor, source, sampler, Limits(TOKENS - len(tokens), frozenset(), BLOCK - 1))
        for _ in range(turn % 4 + 1):
            tokens += next(decoding, None).tokens if len(tokens) < TOKENS else ()
        decoding.close()
        turn += 1
    assert tokens == plain.tokens
    assert session.context.length == session.length
    for mine, theirs in zip(target_state(session), target_state(plain.session), strict=True):
        assert np.array_equal(mine, theirs)
