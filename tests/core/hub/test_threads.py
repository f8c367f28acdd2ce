"""Work in threads that hold files."""

from __future__ import annotations

import asyncio
import threading

import pytest

from core.hub.threads import in_thread
from helpers.loop import in_loop


@in_loop
async def test_a_cancelled_caller_waits_for_the_thread():
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(10)
        ended.set()

    calling = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(3):  # however often
        calling.cancel()
        await asyncio.sleep(0)
        assert not calling.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert ended.is_set()


@in_loop
async def test_an_error_of_a_cancelled_thread_is_not_lost():
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(10)
        raise OSError("disk")

    calling = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 10)
    calling.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await calling
    assert isinstance(cancelled.value.__cause__, OSError)
