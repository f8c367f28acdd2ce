"""The draft's context: whatever way rows came in, later proposals are the same."""

from __future__ import annotations

import mlx.core as mx
import pytest

from core.engine.context import DraftContext
from core.engine.session import Session
from helpers.tiny import tiny_drafter, tiny_target

TOKENS = [(17 * i) % 90 for i in range(1, 41)]


@pytest.fixture(scope="module")
def drafter():
    return tiny_drafter(tiny_target())


@pytest.fixture(scope="module")
def taps(drafter):
    target = drafter._target
    return target.forward(mx.array(TOKENS), target.make_cache()).taps


def proposals(drafter, context):
    return drafter.propose(mx.array([7], dtype=mx.uint32), context, 5)


def filled(drafter, taps, chunks):
    """A context that got its rows in chunks, ingesting after those marked True."""
    context, start = DraftContext(drafter.config.num_hidden_layers), 0
    for rows, ingest in chunks:
        context.queue([tap[start : start + rows] for tap in taps])
        start += rows
        if ingest:
            drafter.ingest(context)
    return context


@pytest.mark.parametrize(
    "chunks",
    [
        [(40, True)],
        [(1, True)] * 40,
        [(1, False)] * 40,
        [(13, True), (1, False), (1, False), (20, True), (5, False)],
    ],
)
def test_chunks_and_moments_of_ingestion_do_not_matter(drafter, taps, chunks):
    whole = proposals(drafter, filled(drafter, taps, [(40, False)]))
    assert mx.allclose(proposals(drafter, filled(drafter, taps, chunks)), whole, atol=1e-4)


@pytest.mark.parametrize("length", [0, 1, 12, 13, 14, 30, 39, 40])
def test_trimming_leaves_what_a_shorter_history_gives(drafter, taps, length):
    context = filled(drafter, taps, [(13, True), (10, False), (17, False)])
    context.trim_to(length)
    assert context.length == length
    shorter = filled(drafter, [tap[:length] for tap in taps], [(length, True)] if length else [])
    assert mx.allclose(proposals(drafter, context), proposals(drafter, shorter), atol=1e-4)


def test_proposing_leaves_the_context_as_it_was(drafter, taps):
    context = filled(drafter, taps, [(40, True)])
    first = proposals(drafter, context)
    assert context.length == 40
    assert mx.array_equal(proposals(drafter, context), first)


def test_plain_decoding_bounds_the_rows_that_wait(drafter, monkeypatch):
    monkeypatch.setattr("core.engine.session.MAX_PENDING_ROWS", 10)
    session = Session(drafter._target, drafter)
    for token in TOKENS:
        forward = session.forward(mx.array([token]))
        session.commit([token], forward.taps)
        assert session.context.pending_rows <= 10
    assert session.context.length == session.length == len(TOKENS)
