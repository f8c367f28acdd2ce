"""One message as the transcript shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Entry:
    """What a message shows. No more is known of it here."""

    role: Literal["user", "assistant"]
    text: str
    thinking: str = ""
    figures: str = ""
    """The line under an answer."""
    problem: str = ""
    """What cut an answer off."""
    message_id: int | None = None
    """Of the store; None where it is not kept there."""
