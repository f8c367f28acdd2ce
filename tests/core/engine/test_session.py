"""A conversation's state: what prompts share is reused, prefill reports, stops and refuses."""

from __future__ import annotations

import pytest

from core.engine.session import Session
from core.errors import Cancelled, PromptTooLong
from helpers.decoding import run, serial_source
from helpers.tiny import tiny_drafter, tiny_target

PROMPT = [5, 17, 60, 3, 41, 8, 22, 31, 9]


@pytest.fixture(scope="module")
def drafter():
    return tiny_drafter(tiny_target(context_length=64))


@pytest.fixture
def session(drafter):
    return Session(drafter._target, drafter)


def prefill(session, prompt):
    return list(session.prefill(prompt, lambda: False))


def test_all_but_the_last_token_is_committed(session):
    assert prefill(session, PROMPT) == [(0, 0), (8, 0)]
    assert session.tokens == PROMPT[:-1]
    assert session.length == session.context.length == 8


def test_progress_comes_after_every_chunk(session, monkeypatch):
    monkeypatch.setattr("core.engine.session.PREFILL_CHUNK_ROWS", 3)
    assert prefill(session, PROMPT) == [(0, 0), (3, 0), (6, 0), (8, 0)]


@pytest.mark.parametrize(
    ("second", "reused"),
    [
        (PROMPT, 8),
        ([*PROMPT[:4], 70, 71, 72], 4),
        (PROMPT[:3], 2),
        ([70, *PROMPT], 0),
        ([*PROMPT, 1, 2, 3], 8),
    ],
)
def test_what_two_prompts_share_is_read_once(session, second, reused):
    prefill(session, PROMPT)
    progress = prefill(session, second)
    assert progress[0] == (reused, reused)
    assert progress[-1] == (len(second) - 1, reused)
    assert session.tokens == second[:-1]
    assert session.context.length == len(second) - 1


def test_a_second_turn_reads_only_what_is_new(session, drafter):
    first = run(drafter._target, drafter, PROMPT, serial_source(drafter), max_tokens=20, session=session)
    second = PROMPT + first.tokens + [50, 51]
    progress = prefill(session, second)
    assert progress[0][1] == len(PROMPT) + len(first.tokens) - 1


def test_a_prompt_of_one_token_needs_no_prefill(session):
    assert prefill(session, [7]) == [(0, 0)]


def test_stopping_between_chunks_keeps_what_was_read(session, monkeypatch):
    monkeypatch.setattr("core.engine.session.PREFILL_CHUNK_ROWS", 3)
    stop = iter([False, True])
    with pytest.raises(Cancelled):
        list(session.prefill(PROMPT, lambda: next(stop)))
    assert session.tokens == PROMPT[:3]
    assert prefill(session, PROMPT)[0] == (3, 3)


def test_a_conversation_longer_than_the_context_is_refused(session):
    with pytest.raises(PromptTooLong, match="70 tokens; this model reads 64"):
        prefill(session, [3] * 70)
