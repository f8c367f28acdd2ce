"""Who may use the engine: it does one thing at a time, and a dialog that measures wants to have it alone.

While a dialog has its turn, requests of others are refused with a reason; it gets none while others are at work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from app.language import tr
from core.client import Call
from core.errors import EngineTaken
from core.protocol import Event, Failed, Generate, Load, Loaded, Request


class EngineTurn:
    """The engine for one dialog alone, from `Engine.take_turn` to `end`."""

    def __init__(
        self, name: str, loaded: Loaded, send: Callable[[Request], Awaitable[Call]], end: Callable[[], None]
    ) -> None:
        self.name = name
        self.loaded = loaded
        """The pair to use."""
        self._send = send
        self._end = end
        self._call: Call | None = None
        self._stopped = False

    async def follow(self, request: Request, take: Callable[[Event], None]) -> Failed | None:
        """Send a request and hand over each of its events. Returns the failure, where it ends with one."""
        self._call = await self._send(request)
        if self._stopped:
            await self._call.cancel()
        failed: Failed | None = None
        async for event in self._call:
            take(event)
            failed = event if isinstance(event, Failed) else None
        self._call = None
        return failed

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    async def stop(self) -> None:
        """Ask for the end of the request under way; its last event still comes."""
        self._stopped = True
        if self._call is not None:
            await self._call.cancel()

    def end(self) -> None:
        """Let others use the engine again."""
        self._end()


def taken_by(name: str) -> EngineTaken:
    """The refusal: `name` is under way."""
    return EngineTaken(
        tr("{name} is under way, and the engine does one thing at a time.").format(name=name),
        tr("Wait for its end, or stop it."),
    )


def work_of(requests: Sequence[Request]) -> str:
    """What the engine does, as the beginning of a sentence."""
    first = requests[0] if requests else None
    if isinstance(first, Generate):
        return tr("An answer")
    return tr("Loading a pair") if first is None or isinstance(first, Load) else tr("Other work")
