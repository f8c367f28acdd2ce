"""One message of a saved chat, as the transcript takes it. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Entry:
    """A message that is complete."""

    role: Literal["user", "assistant"]
    text: str
    """Markdown of an answer, plain text of the user."""
    thinking: str = ""
    """What the model thought before it answered."""
    figures: str = ""
    """The line under an answer."""
    problem: str = ""
    """What cut the answer off, in a sentence."""
    message_id: int | None = None
    """Which message of the chats' file this is; None where it is not saved."""
