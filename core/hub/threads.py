"""Work on the disk, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """What `work` returns. A caller that is cancelled still waits for its end, since it may hold a file."""
    return await settled(asyncio.get_running_loop().run_in_executor(None, partial(work, *arguments, **named)))


async def settled(future: asyncio.Future[R]) -> R:
    """The future's result; never before its end, also where the caller is cancelled meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from future.exception()
    return future.result()
