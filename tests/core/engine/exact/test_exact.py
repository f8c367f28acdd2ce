"""Tier A: on bit-stable arithmetic a speculative run emits plain decoding's tokens, without exception."""

from __future__ import annotations

import mlx.core as mx
import pytest

from core.engine.rollback import Transaction
from core.engine.sampling import Sampler
from core.engine.session import Session
from helpers.decoding import AnchorDiffers, forced_source, plain_source, run, serial_source
from helpers.tiny import BLOCK, tiny_drafter, tiny_target

PROMPT = [5, 17, 60, 3, 41, 8, 22]


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def drafter(target):
    return tiny_drafter(target)


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["greedy", "seeded"])
def temperature(request):
    return request.param


def cached(session: Session) -> list[list[list[float]]]:
    """All committed K/V of the target, and of the draft's context once ingested."""
    caches = [*session._transaction.caches]
    if session.drafter and session.context:
        session.drafter.ingest(session.context)
        caches += session.context.caches
    return [[part[..., : cache.offset, :].tolist() for part in (cache.keys, cache.values)] for cache in caches]


@pytest.mark.parametrize("right", range(BLOCK))
@pytest.mark.parametrize("width", [2, 3, 5, 8])
def test_a_draft_right_for_k_tokens_gives_the_plain_text(target, drafter, temperature, right, width):
    plain = run(target, drafter, PROMPT, temperature=temperature)
    forced = run(
        target,
        drafter,
        PROMPT,
        forced_source(plain.tokens, len(PROMPT), right, BLOCK),
        width=width,
        temperature=temperature,
    )
    assert forced.tokens == plain.tokens
    assert forced.finish == plain.finish == "length"
    for step in forced.steps[1:]:
        assert step.accepted == min(right, len(step.proposals))
        assert len(step.proposals) < width


@pytest.mark.parametrize("right", range(BLOCK))
def test_the_state_after_a_speculative_answer_is_that_of_plain_decoding(target, drafter, temperature, right):
    plain = run(target, drafter, PROMPT, temperature=temperature)
    source = forced_source(plain.tokens, len(PROMPT), right, BLOCK)
    forced = run(target, drafter, PROMPT, source, temperature=temperature)
    assert forced.session.tokens == plain.session.tokens == PROMPT + plain.tokens[:-1]
    assert forced.session.length == forced.session.context.length == len(forced.session.tokens)
    assert cached(forced.session) == cached(plain.session)


@pytest.mark.parametrize("seed", range(4))
def test_a_real_draft_gives_the_plain_text(target, drafter, temperature, seed):
    prompt = [(7 * seed + 11 * i) % 90 for i in range(1, 30 + seed)]
    plain = run(target, drafter, prompt, temperature=temperature, seed=seed)
    drafted = run(target, drafter, prompt, serial_source(drafter), temperature=temperature, seed=seed)
    assert drafted.tokens == plain.tokens
    if temperature:
        assert len(drafted.steps) < len(plain.steps), "the shared noise should make a random draft right now and then"


@pytest.mark.parametrize("right", [0, 3, 7])
@pytest.mark.parametrize("eos_at", range(1, 20))
def test_an_end_of_sequence_anywhere_ends_both_alike(target, drafter, right, eos_at):
    text = run(target, drafter, PROMPT, temperature=1.0).tokens
    eos_ids = frozenset([text[eos_at]])
    plain = run(target, drafter, PROMPT, temperature=1.0, eos_ids=eos_ids)
    forced = run(
        target, drafter, PROMPT, forced_source(text, len(PROMPT), right, BLOCK), temperature=1.0, eos_ids=eos_ids
    )
    assert forced.tokens == plain.tokens
    assert forced.tokens[-1] in eos_ids
    assert forced.finish == plain.finish == "stop"
    assert cached(forced.session) == cached(plain.session)


@pytest.mark.parametrize("right", [0, 3, 7])
@pytest.mark.parametrize("max_tokens", range(1, 20))
def test_the_token_limit_anywhere_in_a_block_is_kept_exactly(target, drafter, right, max_tokens):
    text = run(target, drafter, PROMPT).tokens
    forced = run(target, drafter, PROMPT, forced_source(text, len(PROMPT), right, BLOCK), max_tokens=max_tokens)
    assert forced.tokens == text[:max_tokens]
    assert forced.finish == "length"


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
    assert cached(again.session) == cached(fresh.session)


def test_prefill_in_chunks_changes_nothing(target, drafter, monkeypatch):
    prompt = [(13 * i) % 90 for i in range(1, 60)]
    whole = run(target, drafter, prompt)
    monkeypatch.setattr("core.engine.session.PREFILL_CHUNK_ROWS", 7)
    chunked = run(target, drafter, prompt, serial_source(drafter))
    assert chunked.tokens == whole.tokens
    assert cached(chunked.session) == cached(whole.session)


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
        monkeypatch.setattr(Transaction, "_drop", lambda _self, _rows: None)
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
