"""What the engine is asked: the messages of a chat's path as turns."""

from __future__ import annotations

from collections.abc import Sequence

from core.chats.model import Message
from core.protocol import ChatMessage


def turns(path: Sequence[Message], system_prompt: str = "") -> tuple[ChatMessage, ...]:
    """The system prompt and the messages, for a request. Thinking is no part of it, and empty answers are left out.

    Neighbours of one role become one message, since chat templates want turns: two messages of the user stand together
    where the first was never answered.
    """
    result = [ChatMessage("system", system_prompt)] if system_prompt.strip() else []
    for message in path:
        if message.role == "assistant" and not message.content:
            continue
        if result and result[-1].role == message.role:
            result[-1] = ChatMessage(message.role, f"{result[-1].content}\n\n{message.content}")
        else:
            result.append(ChatMessage(message.role, message.content))
    return tuple(result)
