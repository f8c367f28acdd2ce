"""The chats' file behind a thread of its own, so that the window never waits for the disk.

Calls run one by one in the order in which they were made, which keeps the order of an answer's checkpoints.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from app.language import tr
from core.chats import ChatStore
from core.chats.database import now_ms
from core.chats.salvage import salvage
from core.errors import MirrorError, Problem

T = TypeVar("T")
_log = logging.getLogger(__name__)

UNDO_MS = 3_600_000
"""Deleted chats are removed for good at a start, once they have been deleted for so long."""
_NOT_KEPT = tr("Chats of this session are not kept: they are gone when the window is closed.")


class Keeper:
    """Opens the file, or chats in memory where it cannot be opened; then runs calls on it."""

    def __init__(self, path: Path) -> None:
        """The file is opened at once, in the thread."""
        self.is_kept = True
        """Whether the chats are in the file; known once `opened` has returned."""
        self._thread = ThreadPoolExecutor(1, "chats")
        self._closed = False
        self._store: ChatStore | None = None
        self._opening: Future[Problem | None] = self._thread.submit(self._open, path)

    async def opened(self) -> Problem | None:
        """Wait for the file; returns what the user should know of it."""
        return await asyncio.shield(asyncio.wrap_future(self._opening))

    async def call(self, work: Callable[[ChatStore], T]) -> T:
        """What `work` returns or raises. It is done even where the caller is cancelled."""
        return await asyncio.shield(asyncio.wrap_future(self._thread.submit(self._run, work)))

    async def close(self) -> None:
        """Close the file, after the calls made before; harmless where it is closed."""
        if self._closed:
            return
        self._closed = True
        await asyncio.wrap_future(self._thread.submit(self._close))
        self._thread.shutdown(wait=False)

    # ---------------------------------------------------------------- in the thread

    def _open(self, path: Path) -> Problem | None:
        try:
            self._store = ChatStore.open(path)
            self._store.purge(now_ms() - UNDO_MS)
        except MirrorError as error:
            return self._go_without(error.problem)
        aside = self._store.aside
        if aside is None:
            return None
        try:
            saved = salvage(aside.path, self._store)
        except MirrorError as error:
            _log.warning("nothing was read from %s: %s", aside.path, error.problem)
            return aside.problem
        if not saved.chats:
            return aside.problem
        told = tr("What could be read from it is in the list: {chats} chats.").format(chats=saved.chats)
        return msgspec.structs.replace(aside.problem, hint=f"{told} {aside.problem.hint}")

    def _go_without(self, problem: Problem) -> Problem:
        self.is_kept = False
        if self._store is not None:
            self._store.close()
        self._store = ChatStore.in_memory()
        return msgspec.structs.replace(problem, hint=f"{problem.hint} {_NOT_KEPT}".strip())

    def _run(self, work: Callable[[ChatStore], T]) -> T:
        assert self._store is not None
        return work(self._store)

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
