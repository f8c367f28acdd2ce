"""Tier A for held conversations: in whatever order chats go on, are edited and stopped, fresh sessions say the same.

Of every prompt, what is reused and what is read add up; and the state is that of reading all of it.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine import session as session_module
from core.engine.controller import Controller
from core.engine.costs import Costs
from core.engine.decode import Limits, decode
from core.engine.prefix_store import PrefixStore
from core.engine.rollback import Transaction
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.source_auto import AutoSource
from core.engine.sources import SerialSource
from core.engine.target import Target
from core.errors import Cancelled
from core.protocol import GenerateOptions
from helpers.decoding import plain_source, run, same_state, serial_source
from helpers.families import FAMILIES, KINDS, family_target
from helpers.tiny import BLOCK, VOCABULARY

PLENTY = 100_000_000
SYSTEM = [9, 4, 33, 12, 70, 8, 61, 2, 45, 30, 19, 77]
SAMPLED = {"temperature": 1.0, "seed": 4}
ANSWER_TOKENS = 6
ACTIONS = ("ask", "regenerate", "edit", "stop while reading", "stop while answering", "new chat")
PLANS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2), st.integers(0, 10_000)), min_size=1, max_size=8)
LONG_PLAN = [(action, (7 * seed) % 3, seed) for seed, action in enumerate(ACTIONS * 4)]
MODES = ("plain", "gpu", "ane", "mirror", "auto")


@pytest.fixture(autouse=True, scope="module")
def _little_room():
    """Chunks, windows' spare rows, segments and distances between states are short, so that all their edges are met."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("core.engine.sliding_cache.SPARE_ROWS", 2)
        patch.setattr("core.engine.sliding_cache._GROWTH_ROWS", 4)
        patch.setattr("core.engine.session._MARK_ROWS", 3)
        patch.setattr("core.engine.session._END_EVERY_ROWS", 10)
        patch.setattr("core.engine.session.PREFILL_CHUNK_ROWS", 7)
        patch.setattr("core.engine.prefix_store.SEGMENT_TOKENS", 5)
        yield


@cache
def target_of(family: str) -> Target:
    return family_target(family)


class Chats:
    """Several chats with one system prompt that take turns in one session."""

    def __init__(self, target, drafter, prefix_bytes, make_source=plain_source):
        self.target, self.drafter, self.make_source = target, drafter, make_source
        self.session = Session(target, drafter, prefix_bytes)
        self.chats: list[list[int]] = [[*SYSTEM], [*SYSTEM], [*SYSTEM]]
        self.prompts: list[list[int]] = [[*SYSTEM], [*SYSTEM], [*SYSTEM]]

    def act(self, action: str, chat: int, seed: int) -> None:
        chance = random.Random(seed)
        question = [chance.randrange(2, VOCABULARY) for _ in range(chance.randint(1, 9))]
        prompt = [*self.chats[chat], *question]
        if action == "regenerate":
            prompt = self.prompts[chat]
        if action == "edit":
            kept = chance.randrange(len(SYSTEM) - 2, len(self.chats[chat]) + 1)
            prompt = [*self.chats[chat][:kept], *question]
        if action == "new chat":
            prompt = [*SYSTEM, *question]
        self.prompts[chat] = self.chats[chat] = prompt
        chunks = chance.randint(0, 2) if action == "stop while reading" else 1000
        if self.read(prompt, chunks):
            steps = chance.randint(1, 3) if action == "stop while answering" else 1000
            self.chats[chat] = [*prompt, *self.answer(prompt, steps)]

    def read(self, prompt: list[int], chunks: int) -> bool:
        """Whether all of it was read; what was reused and what was read adds up."""
        checks = iter(range(1000))
        rows, forward = [], self.target.forward
        progress = []
        try:
            self.target.forward = lambda tokens, caches: (rows.append(tokens.shape[0]), forward(tokens, caches))[1]
            for done, reused in self.session.prefill(prompt, lambda: next(checks) >= chunks, len(SYSTEM)):
                progress.append((done, reused))
        except Cancelled:
            return False
        finally:
            del self.target.forward
            assert self.session.tokens == prompt[: self.session.length]
            assert {reused for _, reused in progress} == {progress[0][0]}
            assert progress[0][0] + sum(rows) == progress[-1][0] == self.session.length
        assert self.session.length == len(prompt) - 1
        return True

    def answer(self, prompt: list[int], most_steps: int) -> list[int]:
        """Compared with an answer of a fresh session."""
        fresh = run(self.target, self.drafter, prompt, max_tokens=ANSWER_TOKENS, **SAMPLED)
        sampler = Sampler(GenerateOptions(**SAMPLED), self.target.vocab_size)
        source = self.make_source(self.session, sampler)
        limits = Limits(ANSWER_TOKENS, frozenset(), BLOCK)
        tokens: list[int] = []
        decoding = decode(self.session, prompt[-1], source, sampler, limits)
        for _, step in zip(range(most_steps), decoding, strict=False):
            tokens += step.tokens
        decoding.close()
        assert tokens == fresh.tokens[: len(tokens)]
        assert self.session.tokens == [*prompt, *tokens[:-1]]
        if self.session.context is not None:
            assert self.session.context.length == self.session.length
        return tokens


def check_state(session: Session, target: Target) -> None:
    """Against a session that reads all tokens in other passes, which changes the last bits of a recurrent state."""
    fresh = Session(target, None)
    fresh.read([*session.tokens, 5])
    for mine, theirs in zip(arrays_of(session), arrays_of(fresh), strict=True):
        assert mine.shape == theirs.shape
        assert np.allclose(mine, theirs, rtol=1e-3, atol=1e-4)


def arrays_of(session: Session) -> list[mx.array]:
    transaction = session._transaction
    rows = [array[..., : session.length, :] for arrays in transaction.rows() for array in arrays]
    return rows + [array for state in transaction._states() for array in state if array is not None]


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_the_plan_that_finds_broken_stores_succeeds_with_a_sound_one(family):
    check_plan(target_of(family), LONG_PLAN)


@pytest.mark.parametrize("family", KINDS)
def test_chats_in_any_order_say_what_fresh_sessions_say(family):
    check_chats(family, examples=6)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("family", FAMILIES)
def test_many_chats_in_any_order_say_what_fresh_sessions_say(family):
    check_chats(family, examples=25)


def check_chats(family: str, examples: int) -> None:
    target = target_of(family)

    @given(PLANS, st.sampled_from([PLENTY, 60_000, 20_000]))
    @settings(max_examples=examples, deadline=None, derandomize=True)
    def check(plan, prefix_bytes):
        check_plan(target, plan, prefix_bytes)

    check()


def check_plan(target: Target, plan: list[tuple[str, int, int]], prefix_bytes: int = PLENTY) -> None:
    chats = Chats(target, None, prefix_bytes)
    for action, chat, seed in plan:
        chats.act(action, chat, seed)
    check_state(chats.session, target)
    assert chats.session.held_bytes <= prefix_bytes


def auto_source(tiny, session, sampler):
    costs = Costs((10.0,) * BLOCK, (0.0,) * BLOCK, {"gpu": 1.0, "ane": 1.0}, beside_ms=((32, 1.0),))
    makers = {
        "gpu": lambda: SerialSource(session, tiny.in_mlx, sampler),
        "ane": lambda: tiny.ane(session, sampler),
        "mirror": lambda: tiny.mirror(session, sampler),
    }
    return AutoSource(session, BLOCK, Controller(costs), lambda mode: makers[mode](), lambda *_: None)


def source_of(tiny, mode):
    makers = {
        "plain": plain_source,
        "gpu": serial_source(tiny.in_mlx),
        "ane": tiny.ane,
        "mirror": tiny.mirror,
        "auto": lambda session, sampler: auto_source(tiny, session, sampler),
    }
    return makers[mode]


@pytest.mark.parametrize("mode", MODES)
def test_chats_in_any_order_say_the_same_in_every_mode(tiny, mode):
    @given(PLANS, st.sampled_from([PLENTY, 60_000]))
    @settings(max_examples=6, deadline=None, derandomize=True)
    def check(plan, prefix_bytes):
        chats = Chats(tiny.target, tiny.in_mlx, prefix_bytes, source_of(tiny, mode))
        for action, chat, seed in plan:
            chats.act(action, chat, seed)

    check()


def test_modes_may_change_from_chat_to_chat(tiny):
    chats = Chats(tiny.target, tiny.in_mlx, PLENTY)
    for seed in range(20):
        chats.make_source = source_of(tiny, MODES[seed % 5])
        chats.act(ACTIONS[seed % 4], seed % 3, seed)


@pytest.mark.parametrize("mode", ["plain", "gpu"])
def test_a_held_conversation_comes_back_bit_for_bit(target, drafter, mode):
    """Keys and values of the target and of the draft."""
    prompt, other = [*SYSTEM, 3, 14, 15], [*SYSTEM, 60, 21, 22, 23, 24, 25]
    source = plain_source if mode == "plain" else serial_source(drafter)
    session = Session(target, drafter, PLENTY)
    first = run(target, drafter, prompt, source, session=session, max_tokens=20)
    run(target, drafter, other, source, session=session, max_tokens=20)
    again = [*prompt, *first.tokens, 7]
    assert next(iter(session.prefill(again, lambda: False))) == (len(again) - 2, len(again) - 2)
    fresh = Session(target, drafter)
    fresh.read(again[:-1])
    assert same_state(session, fresh)


def test_proposals_after_a_return_are_those_of_a_session_that_never_left(target, drafter):
    prompt, other = [*SYSTEM, 3, 14, 15], [*SYSTEM, 60, 21, 22, 23, 24, 25]
    proposals = {}
    for leaves in (False, True):
        session = Session(target, drafter, PLENTY)
        first = run(target, drafter, prompt, serial_source(drafter), session=session)
        if leaves:
            run(target, drafter, other, serial_source(drafter), session=session)
        again = run(target, drafter, [*prompt, *first.tokens, 7], serial_source(drafter), session=session)
        proposals[leaves] = [step.proposals for step in again.steps]
    assert proposals[True] == proposals[False]


class TestBrokenStoresAreFound:
    """Tier C: what must fail does fail."""

    def test_rows_that_later_passes_write_to(self, monkeypatch):
        """Held and put back as they are, without a copy."""
        monkeypatch.setattr(session_module, "slice_rows", lambda rows, _first, _end: rows)
        monkeypatch.setattr(session_module, "join_rows", lambda segments: segments[0])
        assert self.fails("llama")

    def test_a_state_of_another_position(self, monkeypatch):
        restore = Transaction.restore

        def wrong(self, length, rows, end):
            restore(self, length, rows, end)
            for kept in self._recurrent:
                kept.cache = [None if array is None else array * 0.5 for array in kept.cache]

        monkeypatch.setattr(Transaction, "restore", wrong)
        assert self.fails("qwen3_5")

    def test_a_beginning_that_is_a_token_too_long(self, monkeypatch):
        walk = PrefixStore._walk

        def longer(self, tokens):
            found = walk(self, tokens)
            return found if found.partly is None else replace(found, inside=found.inside + 1)

        monkeypatch.setattr(PrefixStore, "_walk", longer)
        assert self.fails("llama")

    @staticmethod
    def fails(family):
        try:
            check_plan(target_of(family), LONG_PLAN)
        except (AssertionError, ValueError):
            return True
        return False
