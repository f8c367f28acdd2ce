"""The draft's thread: order, results, errors, and waiting no longer than told."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest

from core.engine.draft_thread import DraftThread
from core.errors import DraftStopped


@pytest.fixture
def thread():
    made = DraftThread()
    yield made
    made.close()


def test_jobs_run_in_order_on_one_other_thread(thread):
    seen = []
    jobs = [thread.begin(lambda number=number: seen.append((number, threading.get_ident()))) for number in range(5)]
    spans = [job.wait(5) for job in jobs]
    assert [number for number, _ in seen] == list(range(5))
    assert {ident for _, ident in seen} != {threading.get_ident()}
    assert len({ident for _, ident in seen}) == 1
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_the_span_of_a_job_is_when_it_ran(thread):
    began_s = time.perf_counter()
    start, end = thread.begin(lambda: None).wait(5)
    assert began_s <= start <= end <= time.perf_counter()


def test_an_error_reaches_who_waits_and_the_thread_goes_on(thread):
    def fail():
        raise ValueError("broken")

    job = thread.begin(fail)
    with pytest.raises(ValueError, match="broken"):
        job.wait(5)
    assert thread.begin(lambda: None).wait(5)


def test_a_job_that_does_not_end_is_not_waited_for(thread):
    hold = threading.Event()
    job = thread.begin(hold.wait)
    with pytest.raises(DraftStopped, match=r"0\.01 seconds"):
        job.wait(0.01)
    hold.set()
    assert job.wait(5)
