"""An answer on its way into the store: a checkpoint each second, and its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec

from app.chats.keeper import Keeper
from app.generation import Answering
from core.chats import ChatStore, Figures
from core.errors import MirrorError, MissingMessage, Problem

CHECKPOINT_S = 1.0
_RETRY_S = 2.0


class Writing:
    """Keeps one answer while it is written, wherever the user looks meanwhile."""

    def __init__(self, keeper: Keeper, answer_id: int, answering: Answering, before: Figures | None = None) -> None:
        """`before`: the figures of what there was of an answer that is continued."""
        self.answer_id = answer_id
        self.answering = answering
        self._keeper = keeper
        self._before = before if answering.text or answering.thinking else None
        self._was_begun = bool(answering.text or answering.thinking)
        self._ended = asyncio.Event()
        self._closing = asyncio.Event()

    @property
    def figures(self) -> Figures | None:
        """Of the answer as a whole, once it has ended; None where nothing is known."""
        ending = self.answering.ending
        if ending is None or ending.done is None:
            return self._before
        figures = Figures.of(ending.done)
        if self._before is not None:
            return self._before.plus(figures)
        return msgspec.structs.replace(figures, misses_beginning=self._was_begun)

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
        store.messages.finish(
            self.answer_id,
            answer.text,
            answer.thinking,
            state=ending.state,
            figures=self.figures,
            problem=ending.problem,
        )


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), within_s)
    return event.is_set()
