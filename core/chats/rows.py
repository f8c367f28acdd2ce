"""Rows of the tables as values, and values as rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from core.chats.model import (
    Attachment,
    Chat,
    ChatOptions,
    ChatSummary,
    Figures,
    Message,
    Role,
    Sampling,
    State,
)
from core.chats.text import storable
from core.errors import CorruptChats, MissingChat, MissingMessage, Problem
from core.protocol import Mode

_T = TypeVar("_T")

SUMMARY = "chats.id, chats.title, chats.pinned, chats.updated_ms"
MESSAGE = "id, parent_id, role, content, thinking, attachments, state, figures, problem, pair, created_ms"
_CHAT = """id, title, title_is_automatic, pinned, created_ms, updated_ms,
    system_prompt, sampling, pair, mode, draft, chosen_root_id"""


def to_json(value: msgspec.Struct | Sequence[msgspec.Struct] | None) -> str | None:
    """For a column; None for what is nothing or empty."""
    return storable(msgspec.json.encode(value).decode()) if value else None


def from_json(text: str | None, kind: type[_T]) -> _T | None:
    """From a column. Raises `CorruptChats` for what this program would not have written."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CorruptChats("A chat in the file is damaged.", detail=f"{error}: {text[:200]}") from error


def summary(row: Sequence[Any]) -> ChatSummary:
    """From the columns of `SUMMARY`."""
    return ChatSummary(row[0], row[1], bool(row[2]), row[3])


def message(row: Sequence[Any], versions: Sequence[int]) -> Message:
    """From the columns of `MESSAGE`."""
    number, parent, role, content, thinking, attachments, state, figures, problem, pair, created = row
    return Message(
        number,
        parent,
        _checked(role, Role),
        content,
        thinking,
        from_json(attachments, tuple[Attachment, ...]) or (),
        _checked(state, State),
        from_json(figures, Figures),
        from_json(problem, Problem),
        pair,
        created,
        tuple(versions),
    )


def get_chat(connection: sqlite3.Connection, chat_id: int) -> tuple[Chat, int | None]:
    """The chat and its chosen first message. Raises `MissingChat`; a deleted chat is there until it is purged."""
    row = connection.execute(f"SELECT {_CHAT} FROM chats WHERE id = ?", (chat_id,)).fetchone()
    if row is None:
        raise missing_chat(chat_id)
    number, title, automatic, pinned, created, updated, prompt, sampling, pair, mode, draft, root = row
    options = ChatOptions(prompt, from_json(sampling, Sampling) or Sampling(), pair, _checked(mode, Mode | None))
    return Chat(number, title, bool(automatic), bool(pinned), created, updated, options, draft), root


def insert_chat(connection: sqlite3.Connection, chat: Chat) -> int:
    """Add the chat under a new id, which is returned."""
    options = chat.options
    cursor = connection.execute(
        """INSERT INTO chats (title, title_is_automatic, pinned, created_ms, updated_ms,
           system_prompt, sampling, pair, mode, draft) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            storable(chat.title),
            chat.title_is_automatic,
            chat.pinned,
            chat.created_ms,
            chat.updated_ms,
            storable(options.system_prompt),
            to_json(options.sampling),
            storable(options.pair),
            options.mode,
            storable(chat.draft),
        ),
    )
    return cursor.lastrowid or 0


def insert_message(connection: sqlite3.Connection, chat_id: int, message: Message, writer: str | None) -> int:
    """Add the message under a new id, which is returned; nothing is chosen."""
    cursor = connection.execute(
        """INSERT INTO messages (chat_id, parent_id, role, state, writer, pair, created_ms,
           attachments, figures, problem, thinking, content) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            chat_id,
            message.parent_id,
            message.role,
            message.state,
            writer,
            storable(message.pair),
            message.created_ms,
            to_json(message.attachments),
            to_json(message.figures),
            to_json(message.problem),
            storable(message.thinking),
            storable(message.content),
        ),
    )
    return cursor.lastrowid or 0


def missing_chat(chat_id: int) -> MissingChat:
    """The error for a chat that is not there."""
    return MissingChat("This chat does not exist any more.", "It was deleted, perhaps in another window.", f"{chat_id}")


def missing_message(message_id: int) -> MissingMessage:
    """The error for a message that is not there."""
    hint = "Its chat was deleted, perhaps in another window."
    return MissingMessage("This message does not exist any more.", hint, f"message {message_id}")


def _checked(value: str | None, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise CorruptChats("A chat in the file is damaged.", detail=str(error)) from error
