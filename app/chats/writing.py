"""An answer on its way into the store: a checkpoint each second, and its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from app.chats.keeper import Keeper
from app.generation import Answering
from core.chats import ChatStore, Figures
from core.errors import MirrorError, MissingMessage, Problem

CHECKPOINT_S = 1.0
_RETRY_S = 2.0


class Writing:
    """Keeps one answer while it is written, wherever the user looks meanwhile."""

    def __init__(self, keeper: Keeper, answer_id: int, answering: Answering) -> None:
        self.answer_id = answer_id
        self.answering = answering
        self._keeper = keeper
        self._ended = asyncio.Event()
        self._closing = asyncio.Event()

    def end(self) -> None:
        """The answer has ended."""
        self._ended.set()

    def close(self) -> None:
        """The program ends: what cannot be written now never will be."""
        self._closing.set()

    async def run(self, tell: Callable[[Problem], None]) -> None:
        """Write until the end is written. `tell` gets each kind of problem once; what failed is tried again."""
        told: set[str] = set()

        async def tried(write: Callable[[ChatStore], None]) -> bool:
            try:
                await self._keeper.call(write)
            except MissingMessage:
                return True  # its chat was removed, perhaps in another window: nobody asks for it any more
            except MirrorError as error:
                if error.problem.kind not in told:
                    told.add(error.problem.kind)
                    tell(error.problem)
                return False
            return True

        kept = (self.answering.text, self.answering.thinking)
        while not await _is_set(self._ended, CHECKPOINT_S):
            now = (self.answering.text, self.answering.thinking)
            if now != kept and await tried(self._checkpoint(*now)):
                kept = now
        while not await tried(self._finish):
            if await _is_set(self._closing, _RETRY_S):
                await tried(self._finish)
                return

    def _checkpoint(self, text: str, thinking: str) -> Callable[[ChatStore], None]:
        return lambda store: store.messages.checkpoint(self.answer_id, text, thinking)

    def _finish(self, store: ChatStore) -> None:
        answer, ending = self.answering, self.answering.ending
        assert ending is not None
        figures = Figures.of(ending.done) if ending.done else None
        store.messages.finish(
            self.answer_id, answer.text, answer.thinking, state=ending.state, figures=figures, problem=ending.problem
        )


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), within_s)
    return event.is_set()
