"""The messages of one chat. No Qt."""

from __future__ import annotations

from core.protocol import ChatMessage


class Conversation:
    """Messages in order; an answer is in it once it has ended."""

    def __init__(self) -> None:
        self._messages: list[ChatMessage] = []

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The messages as they were written."""
        return tuple(self._messages)

    def add(self, message: ChatMessage) -> None:
        """Add a message at the end."""
        self._messages.append(message)

    def drop_last_answer(self) -> None:
        """Forget the answer at the end, so that its question can be answered again."""
        if self._messages and self._messages[-1].role == "assistant":
            self._messages.pop()

    def clear(self) -> None:
        """Forget everything."""
        self._messages.clear()

    def for_request(self) -> tuple[ChatMessage, ...]:
        """The messages with neighbours of one role made one, since chat templates want turns.

        Two messages of the user stand together where the first was never answered.
        """
        result: list[ChatMessage] = []
        for message in self._messages:
            if result and result[-1].role == message.role:
                result[-1] = ChatMessage(message.role, f"{result[-1].content}\n\n{message.content}")
            else:
                result.append(message)
        return tuple(result)
