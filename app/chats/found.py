"""What a search found in a chat. No Qt."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """A message with what was looked for in it."""

    message_id: int
    words: tuple[str, ...]
    """As the message has them, in small letters."""
