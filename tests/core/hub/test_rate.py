"""Rates and pauses, computed."""

from __future__ import annotations

import pytest

from core.errors import HubBusy
from core.hub.answers import MAX_WAIT_S, TryAgain, check_status
from core.hub.progress import RateMeter
from core.hub.retry import RetryPolicy


def meter(*samples: tuple[float, int]) -> RateMeter:
    made = RateMeter()
    for at, count in samples:
        made.sample(at, count)
    return made


def test_a_steady_stream_has_its_rate():
    assert meter(*[(second / 4, second * 250) for second in range(40)]).bytes_per_s() == pytest.approx(1000)


def test_the_rate_follows_the_last_seconds():
    fast_then_slow = [(s, 10_000 * s) for s in range(10)] + [(10 + s, 90_000 + 100 * (s + 1)) for s in range(10)]
    assert meter(*fast_then_slow).bytes_per_s() == pytest.approx(100)


def test_there_is_no_rate_at_the_start_nor_without_bytes():
    assert RateMeter().bytes_per_s() is None
    assert meter((0, 0), (0.2, 500)).bytes_per_s() is None
    assert meter((0, 0), (1, 0), (2, 0)).bytes_per_s() is None


def test_there_is_no_rate_two_seconds_after_the_last_byte():
    flowing = [(0.0, 0), (1.0, 1000), (2.0, 2000)]
    assert meter(*flowing, (3.9, 2000)).bytes_per_s() is not None
    stalled = meter(*flowing, (3.0, 2000), (4.0, 2000))
    assert stalled.bytes_per_s() is None
    assert stalled.quiet_s() == 2


def test_pauses_double_up_to_the_longest():
    policy = RetryPolicy(first_pause_s=1, longest_pause_s=60)
    fault = TryAgain(HubBusy(""))
    pauses = [policy.pause_s(attempt, fault) for attempt in range(1, 10)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize(("value", "wait_s"), [("7", 7), ("99999", MAX_WAIT_S), ("Wed, 21 Oct 2026", None), ("", None)])
def test_the_server_may_say_how_long_to_wait(value, wait_s):
    with pytest.raises(TryAgain) as told:
        check_status(429, {"Retry-After": value}, "hub", False, False)
    assert told.value.wait_s == wait_s
    expected = 2 if wait_s is None else wait_s
    assert RetryPolicy(first_pause_s=1).pause_s(2, told.value) == expected
