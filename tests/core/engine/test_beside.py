"""Work beside the thread that asks for it: what it tells, its result, its errors, and its end."""

from __future__ import annotations

import threading

import pytest

from core.engine.beside import beside
from core.errors import Cancelled


def drained(work, cancelled=lambda: False):
    """What the work told, and its result."""
    working, told = beside(work, cancelled), []
    while True:
        try:
            told.append(next(working))
        except StopIteration as ended:
            return told, ended.value


def test_what_is_told_comes_out_in_order_and_the_result_last():
    def work(tell):
        for number in range(5):
            tell(number)
        return threading.current_thread().name

    told, name = drained(work)
    assert told == [0, 1, 2, 3, 4]
    assert name != threading.current_thread().name


def test_nothing_told_is_no_different_from_something():
    assert drained(lambda tell: tell(None) or 7) == ([None], 7)


def test_an_error_of_the_work_reaches_who_asked():
    def work(tell):
        tell("begun")
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        drained(work)


def test_once_cancelled_the_next_word_ends_the_work():
    asked = iter([False, False, True])
    reached = []

    def work(tell):
        for number in range(10):
            tell(number)
            reached.append(number)

    with pytest.raises(Cancelled):
        drained(work, lambda: next(asked))
    assert reached == [0, 1]


def test_work_that_nobody_listens_to_any_more_has_ended_when_the_generator_is_closed():
    ended = threading.Event()

    def work(tell):
        try:
            while True:
                tell("still here")
        finally:
            ended.set()

    working = beside(work, lambda: False)
    next(working)
    working.close()
    assert ended.is_set()
