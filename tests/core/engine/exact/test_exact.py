"""Tier A on models of several layers, with real drafts and turns; and tier C: broken engines are found."""

from __future__ import annotations

import mlx.core as mx
import pytest

from core.engine.rollback import Transaction
from core.engine.sampling import Sampler
from helpers.decoding import AnchorDiffers, forced_source, plain_source, run, same_state, serial_source
from helpers.tiny import BLOCK, tiny_drafter, tiny_target

PROMPT = [5, 17, 60, 3, 41, 8, 22]


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["greedy", "seeded"])
def temperature(request):
    return request.param


@pytest.mark.parametrize("right", range(BLOCK))
def test_the_state_after_a_speculative_answer_is_that_of_plain_decoding(target, drafter, temperature, right):
    plain = run(target, drafter, PROMPT, temperature=temperature)
    source = forced_source(plain.tokens, len(PROMPT), right, BLOCK)
    forced = run(target, drafter, PROMPT, source, temperature=temperature)
    assert forced.session.tokens == plain.session.tokens == PROMPT + plain.tokens[:-1]
    assert forced.session.length == forced.session.context.length == len(forced.session.tokens)
    assert same_state(forced.session, plain.session)


@pytest.mark.parametrize("seed", range(4))
def test_a_real_draft_gives_the_plain_text(target, drafter, temperature, seed):
    prompt = [(7 * seed + 11 * i) % 90 for i in range(1, 30 + seed)]
    plain = run(target, drafter, prompt, temperature=temperature, seed=seed)
    drafted = run(target, drafter, prompt, serial_source(drafter), temperature=temperature, seed=seed)
    assert drafted.tokens == plain.tokens
    if temperature:
        assert len(drafted.steps) < len(plain.steps), "the shared noise should make a random draft right now and then"


def test_the_context_limit_ends_both_alike(drafter):
    target = tiny_target(context_length=30)
    drafter = tiny_drafter(target)
    plain = run(target, drafter, PROMPT)
    forced = run(target, drafter, PROMPT, forced_source(plain.tokens, len(PROMPT), 5, BLOCK))
    assert forced.tokens == plain.tokens
    assert len(PROMPT) + len(plain.tokens) == 30
    assert forced.finish == plain.finish == "context"


def test_a_second_turn_that_reuses_the_cache_gives_what_a_fresh_one_gives(target, drafter):
    first = run(target, drafter, PROMPT, serial_source(drafter), temperature=1.0)
    second_prompt = PROMPT + first.tokens[:20] + [9, 8, 7]
    again = run(target, drafter, second_prompt, serial_source(drafter), temperature=1.0, session=first.session)
    fresh = run(target, drafter, second_prompt, temperature=1.0)
    assert again.tokens == fresh.tokens
    assert same_state(again.session, fresh.session)


@pytest.mark.parametrize("order", ["plain, serial, plain", "serial, plain, serial"])
def test_turns_in_other_modes_leave_what_fresh_sessions_have(target, drafter, temperature, order):
    sources = {"plain": plain_source, "serial": serial_source(drafter)}
    prompt, session = PROMPT, None
    for name in order.split(", "):
        turn = run(target, drafter, prompt, sources[name], max_tokens=12, temperature=temperature, session=session)
        fresh = run(target, drafter, prompt, sources[name], max_tokens=12, temperature=temperature)
        assert [(step.tokens, step.proposals) for step in turn.steps] == [
            (step.tokens, step.proposals) for step in fresh.steps
        ]
        assert same_state(turn.session, fresh.session)
        session, prompt = turn.session, [*prompt, *turn.tokens[:9], 9, 8, 7]  # the answer's end is edited away


def test_prefill_in_chunks_changes_nothing(target, drafter, monkeypatch):
    prompt = [(13 * i) % 90 for i in range(1, 60)]
    whole = run(target, drafter, prompt)
    monkeypatch.setattr("core.engine.session.PREFILL_CHUNK_ROWS", 7)
    chunked = run(target, drafter, prompt, serial_source(drafter))
    assert chunked.tokens == whole.tokens
    assert same_state(chunked.session, whole.session)


def differs(target, drafter, plain, right, width=BLOCK):
    """Whether a forced run leaves plain decoding's text, which the source itself notices at the next anchor."""
    try:
        wrong = run(target, drafter, PROMPT, forced_source(plain.tokens, len(PROMPT), right, BLOCK), width=width)
    except AnchorDiffers:
        return True
    return wrong.tokens != plain.tokens


class TestBrokenEnginesAreFound:
    """Tier C: what must fail does fail, so that the tests above mean something."""

    def test_a_missed_trim(self, target, drafter, monkeypatch):
        plain = run(target, drafter, PROMPT)
        monkeypatch.setattr(Transaction, "_drop_from", lambda _self, _length, _states: None)
        always_right = run(target, drafter, PROMPT, forced_source(plain.tokens, len(PROMPT), 8, BLOCK))
        assert always_right.tokens == plain.tokens, "nothing was dropped, so nothing can differ"
        assert differs(target, drafter, plain, right=2)

    def test_noise_under_a_wrong_key(self, target, drafter, monkeypatch):
        plain = run(target, drafter, PROMPT, temperature=1.0)
        row = Sampler._noise_row
        monkeypatch.setattr(Sampler, "_noise_row", lambda self, position: row(self, position + 1))
        assert run(target, drafter, PROMPT, plain_source, temperature=1.0).tokens != plain.tokens

    def test_a_rope_offset_of_one_in_verification(self, target, drafter, monkeypatch):
        plain = run(target, drafter, PROMPT)
        rope = type(target.layers[0].self_attn.rope)
        call = rope.__call__
        rows = 5  # the prompt's chunk has six
        monkeypatch.setattr(
            rope, "__call__", lambda self, x, offset=0: call(self, x, offset=offset + (x.shape[-2] == rows))
        )
        assert differs(target, drafter, plain, right=3, width=rows)

    def test_a_dropped_feature_row_changes_the_draft(self, target, drafter):
        session = run(target, drafter, PROMPT).session
        drafter.ingest(session.context)
        anchor = mx.array([session.tokens[-1]], dtype=mx.uint32)
        whole = drafter.propose(anchor, session.context, 4)
        session.context.trim_to(session.context.length - 1)
        assert not mx.array_equal(drafter.propose(anchor, session.context, 4), whole)
