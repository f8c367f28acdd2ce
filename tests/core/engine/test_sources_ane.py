"""Drafting with programs in real decoding: timing, failures in the middle of an answer, and what is learned."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import ane
from core.engine import sources_ane
from core.engine.decode import Limits, decode
from core.engine.fallback import FallbackSource
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.sources import SerialSource
from core.protocol import GenerateOptions
from helpers.decoding import run
from helpers.packaged_draft import relative_error
from helpers.programs import ScriptedSampler
from helpers.tiny import BLOCK

PROMPT = [3, 14, 15, 9, 26]
TOKENS = 40


@pytest.fixture(scope="module")
def plain(tiny):
    return run(tiny.target, tiny.in_mlx, PROMPT, max_tokens=TOKENS)


class Failing:
    """A running draft that stops working after some blocks: it raises, or never comes back."""

    def __init__(self, draft: ane.Draft, blocks: int, hangs: threading.Event | None = None) -> None:
        self._draft = draft
        self._blocks = blocks
        self._hangs = hangs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._draft, name)

    def run(self, *arguments: Any, **options: Any) -> None:
        self._blocks -= 1
        if self._blocks < 0:
            if self._hangs is not None:
                self._hangs.wait()
            raise ane.AneError("The Neural Engine is gone.")
        self._draft.run(*arguments, **options)


def answering(tiny, kind, failing=None, sampler=None):
    """A session after its prompt, and a decoding in which MLX takes over where programs fail."""
    session = Session(tiny.target, tiny.in_mlx)
    sampler = sampler or Sampler(GenerateOptions(), tiny.target.vocab_size)
    for _ in session.prefill(PROMPT, lambda: False):
        pass
    if failing is not None:
        session.context.running = failing(tiny.drafter.running(session.context))
    changes: list[tuple[str, str]] = []
    source = FallbackSource(
        getattr(tiny, kind)(session, sampler),
        lambda: SerialSource(session, tiny.in_mlx, sampler),
        lambda mode, reason: changes.append((mode, reason)),
    )
    decoding = decode(session, PROMPT[-1], source, sampler, Limits(TOKENS, frozenset(), BLOCK - 1))
    return session, decoding, changes


def proposals(tiny, session):
    """What the MLX draft says next, and what it says in a session that read the same text at once."""
    fresh = Session(tiny.target, tiny.in_mlx)
    for _ in fresh.prefill([*session.tokens, 0], lambda: False):
        pass
    anchor = mx.array([5], dtype=mx.uint32)
    return [np.array(tiny.in_mlx.propose(anchor, each.context, 5)) for each in (session, fresh)]


@pytest.mark.parametrize("kind", ["ane", "mirror"])
@pytest.mark.parametrize("blocks", [0, 1, 2, 5])
def test_programs_that_fail_cost_speed_and_change_no_token(tiny, plain, kind, blocks):
    session, decoding, changes = answering(tiny, kind, lambda draft: Failing(draft, blocks))
    steps = list(decoding)
    assert [token for step in steps for token in step.tokens] == plain.tokens
    assert steps[-2].mode == "gpu"
    assert [mode for mode, _ in changes] == ["gpu"]
    assert "Neural Engine is gone" in changes[0][1]
    mine, fresh = proposals(tiny, session)
    assert np.allclose(mine, fresh, atol=0.05), "the context is whole"


@pytest.mark.parametrize("blocks", [1, 3])
def test_programs_that_never_come_back_are_left_behind(tiny, plain, monkeypatch, blocks):
    monkeypatch.setattr(sources_ane, "DRAFT_TIMEOUT_S", 0.05)
    hangs = threading.Event()
    tiny_thread, tiny.thread = tiny.thread, sources_ane.DraftThread()
    try:
        session, decoding, changes = answering(tiny, "mirror", lambda draft: Failing(draft, blocks, hangs))
        steps = list(decoding)
        assert [token for step in steps for token in step.tokens] == plain.tokens
        assert "has not answered" in changes[0][1]
        assert session.context.running is None
        mine, fresh = proposals(tiny, session)
        assert np.allclose(mine, fresh, atol=1e-3)
    finally:
        hangs.set()
        tiny.thread.close()
        tiny.thread = tiny_thread


class LongPasses(Sampler):
    """Choices that take a target's time, not a tiny model's."""

    def choose(self, *arguments: Any) -> mx.array:
        rows = mx.random.normal((1024, 1024))
        for _ in range(4):
            rows = rows @ rows * 1e-3
        return super().choose(*arguments) + (rows.sum() * 0).astype(mx.uint32)


def test_the_draft_works_while_the_target_verifies(tiny):
    _, decoding, _ = answering(tiny, "mirror", sampler=LongPasses(GenerateOptions(), tiny.target.vocab_size))
    steps = list(decoding)
    guessed = [(before, step) for before, step in pairwise(steps) if step.branches]
    assert len(guessed) > 3
    for before, step in guessed:
        began_s, ended_s = step.draft_busy[0]
        assert began_s < before.done_s, "it began before the verification ended"
        assert began_s < ended_s
        assert step.branch in ("hit", "miss")
        assert len(step.draft_busy) == (1 if step.branch == "hit" else 2)


def test_only_what_came_true_is_ever_proposed(tiny, plain):
    """The proposals behind a hit are those of the outcome's own branch, not those of another."""
    tiny.expect(1)
    sampler = ScriptedSampler(
        Sampler(GenerateOptions(), tiny.target.vocab_size), plain.tokens, len(PROMPT), lambda _: 1, lambda _: True
    )
    _, decoding, _ = answering(tiny, "mirror", sampler=sampler)
    steps = list(decoding)
    assert [token for step in steps for token in step.tokens] == plain.tokens
    assert {step.branch for step in steps[2:-1]} == {"hit"}
    assert all(step.accepted == 1 for step in steps[1:-2])


def test_the_rest_of_a_block_is_used_where_all_before_it_proves_right(tiny, plain, monkeypatch):
    tiny.expect(0)  # so that the outcome gets no columns
    blocks: list[Any] = []
    judged: list[Any] = []
    block, logits = tiny.drafter.block, tiny.drafter.logits
    monkeypatch.setattr(tiny.drafter, "block", lambda *args: blocks.append(block(*args)) or blocks[-1])
    monkeypatch.setattr(tiny.drafter, "logits", lambda rows: judged.append(rows) or logits(rows))
    sampler = ScriptedSampler(
        Sampler(GenerateOptions(), tiny.target.vocab_size), plain.tokens, len(PROMPT), lambda _: 99, lambda _: True
    )
    session = Session(tiny.target, tiny.in_mlx)
    for _ in session.prefill(PROMPT, lambda: False):
        pass
    limits = Limits(TOKENS, frozenset(), 3)  # of a block's seven tokens two are verified, then two more
    steps = list(decode(session, PROMPT[-1], tiny.mirror(session, sampler), sampler, limits))
    assert [token for step in steps for token in step.tokens] == plain.tokens
    assert steps[2].branch == "hit"
    assert len(blocks) < len(judged)
    assert np.array_equal(judged[0], blocks[0][:3])
    assert np.array_equal(judged[1], blocks[0][3:6])
    assert np.array_equal(session.tokens, [*PROMPT, *plain.tokens[:-1]])


@pytest.mark.parametrize("kind", ["ane", "mirror"])
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_closing_early_leaves_no_work_behind(tiny, plain, kind, steps):
    session, decoding, changes = answering(tiny, kind)
    tokens = [token for _ in range(steps) for token in next(decoding).tokens]
    decoding.close()
    assert session.tokens == [*PROMPT, *tokens][:-1]
    assert session.context.length == session.length
    assert not changes
    session.trim_to(2)  # the draft is not at work any more
    assert session.context.length == 2
    assert tokens == plain.tokens[: len(tokens)]


def test_a_branch_is_what_a_block_with_the_same_known_tokens_gives(tiny):
    """Every branch's rows against a draft that reads the conversation anew, then anchor, accepted, said, masks."""
    session = Session(tiny.target, tiny.in_mlx)
    sampler = Sampler(GenerateOptions(), tiny.target.vocab_size)
    for _ in session.prefill(PROMPT, lambda: False):
        pass
    source = tiny.mirror(session, sampler)
    decoding = decode(session, PROMPT[-1], source, sampler, Limits(TOKENS, frozenset(), 5))
    compared = 0
    for _ in range(6):
        next(decoding)
        choices, ahead = source._choices, source._ahead
        if choices is None or ahead is None:
            continue
        ahead.job.wait(5)
        fresh = Session(tiny.target, tiny.drafter)
        for _ in fresh.prefill([*session.tokens, 0], lambda: False):
            pass
        tiny.drafter.ingest(fresh.context)
        for (accepted, token), (first, masks) in ahead.first_columns.items():
            known = [anchor_of(decoding), *choices.tokens[:accepted], token]
            block = [*known, *[tiny.drafter.config.mask_token_id] * masks]
            embedded = np.array(tiny.drafter.embed(mx.array(block, dtype=mx.uint32)))
            hidden = np.empty_like(embedded)
            positions = range(choices.position, choices.position + len(block))
            tiny.drafter.running(fresh.context).run(embedded, positions, hidden)
            assert relative_error(ahead.hidden[first : first + masks], hidden[len(known) :]) <= 1e-2
            compared += 1
    decoding.close()
    assert compared > 10


def anchor_of(decoding):
    """The token behind everything committed: what the last step handed out last."""
    return decoding.gi_frame.f_locals["loop"]._anchor
