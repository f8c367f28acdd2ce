"""Sums over spans of devices that work in turns, beside each other, or with gaps."""

from __future__ import annotations

import pytest

from core.engine.spans import beside_s, covered_s, total_s

SPANS = [(0.0, 2.0), (1.0, 4.0), (6.0, 7.0)]


def test_lengths_add_up() -> None:
    assert total_s(SPANS) == 6
    assert total_s([]) == 0


@pytest.mark.parametrize(("start", "end", "covered"), [(0, 10, 5), (1.5, 6.5, 3), (4, 6, 0), (-1, 0.5, 0.5)])
def test_what_is_covered_counts_once_and_only_within(start: float, end: float, covered: float) -> None:
    assert covered_s(SPANS, start, end) == covered


def test_time_beside_each_other_is_what_the_sum_counts_twice() -> None:
    assert beside_s(SPANS) == 1
    assert beside_s(iter(SPANS[::-1])) == 1
    assert beside_s([(0.0, 1.0), (1.0, 2.0)]) == 0
