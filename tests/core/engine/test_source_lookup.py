"""Prompt lookup: the longest repeat of the text's end, found in bounded time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.engine.source_lookup import LEAST_MATCH, LONGEST_MATCH, LookupSource, RepeatIndex
from helpers.decoding import run, three_tokens_only
from helpers.tiny import tiny_target


def index_of(tokens: list[int]) -> RepeatIndex:
    index = RepeatIndex()
    index.extend(tokens)
    return index


def continuation(index: RepeatIndex, rows: int) -> list[int]:
    repeat = index.repeat(rows)
    return repeat.tokens if repeat else []


def by_search(tokens: list[int], rows: int) -> list[int]:
    """The same by comparing every place."""

    def match(end: int) -> int:
        length = 0
        while length < min(LONGEST_MATCH, end) and tokens[end - 1 - length] == tokens[-1 - length]:
            length += 1
        return length

    longest, start = max(((match(end), end) for end in range(1, len(tokens))), default=(0, 0))
    if longest < LEAST_MATCH:
        return []
    copied = list(tokens)
    for row in range(rows):
        copied.append(copied[start + row])
    return copied[len(tokens) :]


@given(st.lists(st.integers(0, 2), max_size=28), st.integers(1, 12))
def test_it_finds_what_a_search_of_every_place_finds(tokens, rows):
    assert continuation(index_of(tokens), rows) == by_search(tokens, rows)


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=8))
def test_a_text_may_grow_in_any_pieces(pieces):
    index = RepeatIndex()
    for piece in pieces:
        index.extend(piece)
    assert continuation(index, 5) == continuation(index_of([token for piece in pieces for token in piece]), 5)


def test_the_longest_repeat_wins_over_newer_shorter_ones():
    text = [1, 2, 3, 4, 50, 9, 2, 3, 4, 60, 9, 8, 1, 2, 3, 4]
    assert continuation(index_of(text), 2) == [50, 9]


def test_the_newest_of_equal_repeats_wins():
    assert continuation(index_of([2, 3, 4, 50, 2, 3, 4, 60, 2, 3, 4]), 1) == [60]


def test_two_tokens_are_no_repeat():
    assert continuation(index_of([3, 4, 50, 7, 3, 4]), 4) == []


def test_a_period_goes_on():
    assert continuation(index_of([5, 6, 5, 6, 5, 6]), 5) == [5, 6, 5, 6, 5]


def test_a_token_that_always_repeats_does_not_make_look_ups_long(monkeypatch):
    index, compared = index_of([7] * 5000 + [1, 2]), []
    match = RepeatIndex._match
    monkeypatch.setattr(
        RepeatIndex, "_match", lambda self, position: compared.append(position) or match(self, position)
    )
    index.extend([7, 7, 7])
    assert continuation(index, 3) == [1, 2, 7]
    assert 0 < len(compared) <= 32


def test_proposals_cost_the_draft_nothing_and_steps_without_a_repeat_are_plain(monkeypatch):
    three_tokens_only(monkeypatch)
    answer = run(tiny_target(), None, [0, 1, 2], lambda session, _: LookupSource(session, 8), max_tokens=40)
    proposed = {bool(step.proposals): step for step in answer.steps}
    assert {bool(proposals): step.mode for proposals, step in proposed.items()} == {False: "plain", True: "lookup"}
    assert all(step.draft_ms == 0 for step in answer.steps)
    assert all(len(step.proposals) < 8 for step in answer.steps)
