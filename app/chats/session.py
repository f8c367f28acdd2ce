"""One chat as the window works with it: what the store holds, what is typed, the answer under way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from app.chat.entry import Entry
from app.chat.message_bar import Offer
from app.chats.writing import Writing
from app.language import tr
from app.stats import words
from core.chats import Chat, ChatOptions, Message
from core.chats.attach import TextFile, typed_text

_INTERRUPTED = tr("Interrupted: the program ended while this answer was written.")
_ELSEWHERE = tr("This answer is being written in another window.")
_STOPPED = tr("Stopped before the answer was complete.")
_NO_OPTIONS = ChatOptions()


@dataclass(eq=False)
class Session:
    """A chat that is open or being answered."""

    chat: Chat | None = None
    """None until there is something to keep."""
    options: ChatOptions = _NO_OPTIONS
    path: tuple[Message, ...] = ()
    """The messages that are shown."""
    draft: str = ""
    files: tuple[TextFile, ...] = ()
    """Attached to the message that is being typed."""
    kept_files: tuple[TextFile, ...] = ()
    """Those of them that the store has."""
    sent: tuple[str, tuple[TextFile, ...]] = ("", ())
    """What is on its way into the store."""
    asking: bool = False
    """A question is on its way into the store."""
    writing: Writing | None = None
    """The answer that is waited for."""
    unkept: list[Writing] = field(default_factory=list)
    """Answers that have ended and are not in the store as a whole yet."""

    @property
    def chat_id(self) -> int | None:
        """The store's number."""
        return self.chat.id if self.chat else None

    @property
    def accepts_message(self) -> bool:
        """Whether something may be asked now."""
        return not self.asking and self.writing is None

    @property
    def must_stay(self) -> bool:
        """Whether it holds what the store does not."""
        return bool(not self.accepts_message or self.unkept or self.files != self.kept_files)

    def find(self, message_id: int) -> Message | None:
        """The message, where it is one of those shown."""
        return next((message for message in self.path if message.id == message_id), None)

    def last(self, role: Literal["user", "assistant"]) -> Message | None:
        """The last message of that role."""
        return next((message for message in reversed(self.path) if message.role == role), None)

    def end_answer(self, writing: Writing) -> Message | None:
        """Take over how the answer ended; returns it, where it is one of those shown."""
        self.writing = None
        self.unkept.append(writing)
        self.take(self.path)
        return self.find(writing.answer_id)

    def take(self, path: tuple[Message, ...]) -> None:
        """Show what the store has, and instead of what it does not have yet how answers have ended."""
        ended = {writing.answer_id: writing for writing in self.unkept}
        self.path = tuple(_as_ended(m, ended[m.id]) if m.id in ended else m for m in path)

    def offer(self, message_id: int) -> Offer:
        """What can be done with a message."""
        message = self.find(message_id)
        if message is None:
            return Offer()
        free = self.accepts_message and message.state != "running"
        is_answer, is_last = message.role == "assistant", message is self.path[-1]
        return Offer(
            versions=message.versions,
            place=message.versions.index(message.id) if message.id in message.versions else 0,
            can_choose=free,
            can_copy=not is_answer,
            can_edit=free and not is_answer,
            can_regenerate=free and (is_answer or is_last),
            can_continue=free and is_answer and is_last and can_continue(message),
        )


def _as_ended(message: Message, writing: Writing) -> Message:
    answering, ending = writing.answering, writing.answering.ending
    assert ending is not None
    return msgspec.structs.replace(
        message,
        content=answering.text,
        thinking=answering.thinking,
        state=ending.state,
        figures=writing.figures,
        problem=ending.problem,
    )


def can_continue(message: Message) -> bool:
    """Whether there is more to come of an answer that has begun."""
    cut = message.figures is not None and message.figures.finish_reason in ("length", "context")
    return bool(message.content) and (message.state in ("interrupted", "stopped", "failed") or cut)


def entry_of(message: Message) -> Entry:
    """The message as it is shown."""
    if message.role == "user":
        return Entry("user", shown_text(message), message_id=message.id)
    figures, problem = ending_of(message)
    return Entry("assistant", message.content, message.thinking, figures, problem, message.id)


def ending_of(answer: Message) -> tuple[str, str]:
    """The line under an answer, and what cut it off."""
    figures = words.answer_line(answer.figures) if answer.figures else ""
    if answer.state == "stopped" and not figures:
        figures = _STOPPED
    if answer.state == "failed":
        if answer.problem is None:
            return figures, _INTERRUPTED
        return figures, tr("Interrupted: {reason}").format(reason=answer.problem.sentence)
    return figures, {"interrupted": _INTERRUPTED, "running": _ELSEWHERE}.get(answer.state, "")


def shown_text(message: Message) -> str:
    """What the user typed, behind the names of the files."""
    if not message.attachments:
        return message.content
    names = ", ".join(attachment.name for attachment in message.attachments)
    typed = typed_text(message.content, message.attachments)
    attached = tr("Attached: {files}").format(files=names)
    return f"{attached}\n\n{typed}".rstrip()


def attached_files(message: Message) -> tuple[TextFile, ...]:
    """The files in a message, as they were attached."""
    files = []
    for attachment in message.attachments:
        fenced = message.content[attachment.start : attachment.end].split("\n", 2)[2]
        files.append(TextFile(attachment.name, fenced.rpartition("\n")[0] + "\n"))
    return tuple(files)
