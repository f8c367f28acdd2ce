"""Running averages: quick at first, slow later, and positions that were never reached are like the others."""

from __future__ import annotations

import pytest

from core.engine.averages import Acceptance, Average


def test_an_average_follows_its_first_values_fast_and_later_ones_slowly() -> None:
    average = Average(1.0, weight=2, most=20)
    average.add(0.0)
    assert average.value == pytest.approx(2 / 3)
    for _ in range(100):
        average.add(0.0)
    assert average.value < 0.01
    average.add(1.0)
    assert average.value == pytest.approx(0.05, abs=0.01)
    average.doubt()
    average.add(1.0)
    assert average.value > 0.2


def test_expected_tokens_are_those_of_the_blocks_seen() -> None:
    acceptance = Acceptance(7)
    for index in range(400):
        acceptance.add((0, 2, 1, 0)[index % 4], 3)
    assert acceptance.expected_tokens(1) == 1
    assert acceptance.expected_tokens(4) == pytest.approx(1.75, abs=0.1)


def test_a_block_that_always_fails_at_once_promises_nothing_at_any_width() -> None:
    acceptance = Acceptance(7)
    for _ in range(8):
        acceptance.add(0, 7)
    assert acceptance.expected_tokens(8) < 1.25


def test_a_doubted_acceptance_learns_another_text_in_a_few_blocks() -> None:
    acceptance = Acceptance(7)
    for _ in range(100):
        acceptance.add(7, 7)
    assert acceptance.expected_tokens(8) > 7.5
    acceptance.doubt()
    for _ in range(5):
        acceptance.add(0, 7)
    assert acceptance.expected_tokens(2) < 1.5
