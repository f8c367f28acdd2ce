"""Coroutines started from Qt slots: kept alive until they end, and never failing in silence."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """Runs coroutines for one owner. What a coroutine raises reaches `sys.excepthook`."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run the coroutine on the running loop."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def cancel_all(self) -> None:
        """Cancel what still runs and wait for it."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)  # errors went to the hook

    async def wait_all(self) -> None:
        """Wait for what still runs."""
        await asyncio.gather(*self._running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            sys.excepthook(type(error), error, error.__traceback__)
