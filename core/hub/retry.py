"""How often and after which pauses a fault that may pass is met again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from core.hub.answers import TryAgain

T = TypeVar("T")

STALL_S = 10.0


class RetryPolicy(msgspec.Struct, frozen=True):
    """Pauses double from the first to the longest; the server's own wish comes first."""

    attempts: int = 10
    """In a row without any bytes."""
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0

    def pause_s(self, attempt: int, fault: TryAgain) -> float:
        """Seconds to wait after attempt number `attempt` (from 1) met `fault`."""
        if fault.wait_s is not None:
            return fault.wait_s
        return min(self.first_pause_s * 2.0 ** (attempt - 1), self.longest_pause_s)


SHORT = RetryPolicy(attempts=3)
"""For small questions that a user waits for."""


class Patience(msgspec.Struct, frozen=True):
    """How long a download waits for what may come back."""

    stall_s: float = STALL_S
    """Without a byte, after which a connection is given up."""
    retry: RetryPolicy = RetryPolicy()
    questions: RetryPolicy = SHORT
    """For asking what the model has."""
    space_poll_s: float = 2.0
    """Between looks at the disk while it is full."""


async def patiently(ask: Callable[[], Awaitable[T]], policy: RetryPolicy) -> T:
    """The answer to `ask`, asked again as the policy says. Raises the last fault's own error."""
    for attempt in range(1, policy.attempts + 1):
        try:
            return await ask()
        except TryAgain as fault:
            if attempt == policy.attempts:
                raise fault.error from fault
            await asyncio.sleep(policy.pause_s(attempt, fault))
    raise AssertionError("a policy has at least one attempt")
