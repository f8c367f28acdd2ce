"""Chats as files of their own: JSON that holds everything and can be imported, Markdown to read.

In JSON the messages of a chat stand parents first, and name each other by their place in the list.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from core.chats import rows
from core.chats.model import (
    Attachment,
    Chat,
    ChatOptions,
    EndState,
    Figures,
    Message,
    Role,
    TimeMs,
)
from core.chats.store import ChatStore
from core.errors import Problem, UnreadableImport

_VERSION = 1
CHOSEN_AND_MESSAGE = f"chosen_child_id, {rows.MESSAGE}"
Place = Annotated[int, msgspec.Meta(ge=0)]


class ExportedMessage(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A message; see `core.chats.model.Message`."""

    role: Role
    content: str
    created_ms: TimeMs
    parent: Place | None = None
    chosen_child: Place | None = None
    thinking: str = ""
    attachments: tuple[Attachment, ...] = ()
    state: EndState = "complete"
    figures: Figures | None = None
    problem: Problem | None = None
    pair: str = ""


class ExportedChat(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A chat with all its messages; see `core.chats.model.Chat`."""

    title: str
    created_ms: TimeMs
    updated_ms: TimeMs
    messages: tuple[ExportedMessage, ...]
    title_is_automatic: bool = True
    pinned: bool = False
    options: ChatOptions = ChatOptions()
    draft: str = ""
    chosen_root: Place | None = None


class ChatsFile(msgspec.Struct, frozen=True):
    """The file."""

    format: Literal["mirror-sd-chats"]
    version: int
    chats: tuple[ExportedChat, ...]


class _Header(msgspec.Struct, frozen=True):
    format: Literal["mirror-sd-chats"]
    version: int


# -------------------------------------------------------------------- export


def export_json(store: ChatStore, chat_ids: Sequence[int]) -> bytes:
    """The chats with all versions of all messages. Raises `MissingChat` and the errors of `Database.read`."""
    with store.database.read() as connection:
        chats = tuple(_exported(connection, number) for number in chat_ids)
    return msgspec.json.format(msgspec.json.encode(ChatsFile("mirror-sd-chats", _VERSION, chats)), indent=1)


def _exported(connection: sqlite3.Connection, chat_id: int) -> ExportedChat:
    chat, root = rows.get_chat(connection, chat_id)
    found = connection.execute(f"SELECT {CHOSEN_AND_MESSAGE} FROM messages WHERE chat_id = ? ORDER BY id", (chat_id,))
    return assembled(chat, root, found.fetchall())


def assembled(chat: Chat, root: int | None, found: Sequence[Sequence[Any]]) -> ExportedChat:
    """A chat from its chosen first message and the rows (`CHOSEN_AND_MESSAGE`) of its messages, by id.

    Raises `CorruptChats`.
    """
    places: dict[int | None, int] = {row[1]: place for place, row in enumerate(found)}
    messages = tuple(
        _exported_message(rows.message(row[1:], ()), places.get(row[2]), places.get(row[0])) for row in found
    )
    return ExportedChat(
        title=chat.title,
        created_ms=chat.created_ms,
        updated_ms=chat.updated_ms,
        messages=messages,
        title_is_automatic=chat.title_is_automatic,
        pinned=chat.pinned,
        options=chat.options,
        draft=chat.draft,
        chosen_root=places.get(root),
    )


def _exported_message(message: Message, parent: int | None, chosen_child: int | None) -> ExportedMessage:
    return ExportedMessage(
        role=message.role,
        content=message.content,
        created_ms=message.created_ms,
        parent=parent,
        chosen_child=chosen_child,
        thinking=message.thinking,
        attachments=message.attachments,
        # What is still being written goes into the file as it is now.
        state="interrupted" if message.state == "running" else message.state,
        figures=message.figures,
        problem=message.problem,
        pair=message.pair,
    )


def export_markdown(store: ChatStore, chat_id: int) -> str:
    """The chosen path of the chat, thinking folded away. Raises as `export_json`."""
    chat, path = store.get(chat_id), store.messages.path(chat_id)
    parts = [f"# {' '.join(chat.title.split()) or 'Chat'}"]
    if chat.options.system_prompt:
        parts += ["## System prompt", chat.options.system_prompt]
    for message in path:
        when = datetime.fromtimestamp(message.created_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
        who = "You" if message.role == "user" else f"Answer ({message.pair})" if message.pair else "Answer"
        parts.append(f"## {who}, {when}")
        if message.thinking:
            parts.append(f"<details><summary>Thinking</summary>\n\n{message.thinking.strip()}\n\n</details>")
        parts.append(message.content.strip("\n"))
        if message.state not in ("complete", "running"):
            parts.append(f"*({message.state})*")
    return "\n\n".join(part for part in parts if part) + "\n"


# -------------------------------------------------------------------- import


def import_json(store: ChatStore, data: bytes) -> tuple[int, ...]:
    """Add all chats of a file that `export_json` wrote, as new ones; returns their ids.

    Raises `UnreadableImport` and the errors of `Database.write`; then nothing was added.
    """
    chats = _read(data)
    with store.database.write() as connection:
        return add_all(connection, chats)


def _read(data: bytes) -> tuple[ExportedChat, ...]:
    try:
        version = msgspec.json.decode(data, type=_Header).version
        if version > _VERSION:
            raise UnreadableImport(
                "This file comes from a newer version of Mirror SD.", "Import it there.", f"format version {version}"
            )
        chats = msgspec.json.decode(data, type=ChatsFile).chats
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(str(error)) from error
    for number, chat in enumerate(chats):
        check(chat, number)
    return chats


def check(chat: ExportedChat, number: int) -> None:
    """Raises `UnreadableImport` where the messages are no tree of turns."""
    messages = chat.messages
    if chat.chosen_root is not None and (
        chat.chosen_root >= len(messages) or messages[chat.chosen_root].parent is not None
    ):
        raise _unreadable(f"chat {number}: chosen root {chat.chosen_root}")
    for place, message in enumerate(messages):
        parent, child = message.parent, message.chosen_child
        above = None if parent is None or parent >= place else messages[parent].role
        turns = above == ("user" if message.role == "assistant" else "assistant")
        if not turns and (parent is not None or message.role == "assistant"):
            raise _unreadable(f"chat {number}, message {place}: {message.role} behind {parent}")
        if child is not None and (child >= len(messages) or messages[child].parent != place):
            raise _unreadable(f"chat {number}, message {place}: chosen child {child}")
        if any(not a.start <= a.end <= len(message.content) for a in message.attachments):
            raise _unreadable(f"chat {number}, message {place}: attachments beyond its text")


def _unreadable(detail: str) -> UnreadableImport:
    return UnreadableImport(
        "This file holds no chats that Mirror SD can read.", "Choose a JSON file that Mirror SD exported.", detail
    )


def add_all(connection: sqlite3.Connection, chats: Sequence[ExportedChat]) -> tuple[int, ...]:
    """Add chats that `check` has passed under new ids, which are returned. Call within a write transaction.

    The search index writes out what it has after every statement that feeds it: one for all takes a third of the time.
    """
    last = connection.execute("SELECT coalesce(max(id), 0) FROM messages").fetchone()[0]
    trigger = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'message_added'").fetchone()[0]
    connection.execute("DROP TRIGGER message_added")
    ids = tuple(_add(connection, chat) for chat in chats)
    connection.execute(
        "INSERT INTO message_index (rowid, body) SELECT id, body FROM message_words WHERE id > ?", (last,)
    )
    connection.execute(trigger)
    return ids


def _add(connection: sqlite3.Connection, chat: ExportedChat) -> int:
    described = Chat(
        0, chat.title, chat.title_is_automatic, chat.pinned, chat.created_ms, chat.updated_ms, chat.options, chat.draft
    )
    chat_id = rows.insert_chat(connection, described)
    ids: list[int] = []
    for message in chat.messages:
        parent = None if message.parent is None else ids[message.parent]
        ids.append(rows.insert_message(connection, chat_id, _imported(message, parent), None))
    connection.executemany(
        "UPDATE messages SET chosen_child_id = ? WHERE id = ?",
        [(ids[m.chosen_child], ids[place]) for place, m in enumerate(chat.messages) if m.chosen_child is not None],
    )
    root = None if chat.chosen_root is None else ids[chat.chosen_root]
    connection.execute("UPDATE chats SET chosen_root_id = ? WHERE id = ?", (root, chat_id))
    return chat_id


def _imported(message: ExportedMessage, parent_id: int | None) -> Message:
    return Message(
        0,
        parent_id,
        message.role,
        message.content,
        message.thinking,
        message.attachments,
        message.state,
        message.figures,
        message.problem,
        message.pair,
        message.created_ms,
        (),
    )
