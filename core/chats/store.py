"""The chats: their list, their options, deletion with undo, search. Their messages: core/chats/messages.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from core.chats import database, rows
from core.chats.attach import TextFile, typed_text
from core.chats.database import Aside, Database
from core.chats.messages import Messages
from core.chats.model import Attachment, Chat, ChatOptions, ChatSummary, Hit, Piece
from core.chats.text import automatic_title, storable
from core.chats.words import FOUND_BEGINS, FOUND_ENDS, pieces, query
from core.errors import CorruptChats

_SNIPPET_WORDS = 16
_TITLES_FOUND = f"""
    SELECT {rows.SUMMARY}, highlight(title_index, 0, '{FOUND_BEGINS}', '{FOUND_ENDS}')
    FROM title_index JOIN chats ON chats.id = title_index.rowid
    WHERE title_index MATCH ? AND chats.deleted_ms IS NULL
    ORDER BY chats.updated_ms DESC, chats.id DESC LIMIT ?"""
# Newest first is the index's own order: the search ends with the last chat that is wanted. `is_new_chat` is made for
# each search: snippets are dear, and only a chat's newest message needs one.
_MESSAGES_FOUND = f"""
    SELECT {rows.SUMMARY}, messages.id, CASE WHEN is_new_chat(chats.id)
        THEN snippet(message_index, 0, '{FOUND_BEGINS}', '{FOUND_ENDS}', '…', {_SNIPPET_WORDS}) END
    FROM message_index JOIN messages ON messages.id = message_index.rowid JOIN chats ON chats.id = messages.chat_id
    WHERE message_index MATCH ? AND chats.deleted_ms IS NULL
    ORDER BY message_index.rowid DESC"""


class ChatStore:
    """All chats of one file.

    Every method may raise `ChatsBusy`, `ChatsDiskFull`, `ChatsReadOnly`, `ChatsNotWritten`, `ChatsTooNew` (a newer
    program has changed the file meanwhile) and `CorruptChats`; a method that raises has changed nothing.
    """

    def __init__(self, database: Database, aside: Aside | None = None) -> None:
        self.database = database
        self.aside = aside
        """Where the opening found a damaged file: under which name it was kept, and what to tell the user."""
        self.messages = Messages(database)
        try:
            self.messages.end_interrupted()
        except BaseException:
            database.close()
            raise

    @classmethod
    def open(cls, path: Path) -> ChatStore:
        """Open the file, or make it. A damaged one is kept under another name: see `aside`, and
        core/chats/salvage.py for what can still be read of it.

        Raises `ChatsTooNew` for a file that a newer program has written, which stays untouched, and `ChatsBusy`,
        `ChatsDiskFull`, `ChatsReadOnly`, `ChatsNotWritten`.
        """
        try:
            return cls(*database.open_file(path))
        except CorruptChats:  # met behind the first look at the file: opened again, all of it is looked at
            return cls(*database.open_file(path))

    @classmethod
    def in_memory(cls) -> ChatStore:
        """Chats that are gone with the program: for when the file cannot be opened."""
        return cls(database.open_in_memory())

    def close(self) -> None:
        """Close the file; answers that are still written count as interrupted from then on."""
        self.messages.close()
        self.database.close()

    # --------------------------------------------------------------- one chat

    def create(self, options: ChatOptions | None = None) -> Chat:
        """A new, empty chat without a title."""
        options = options or ChatOptions()
        now = database.now_ms()
        with self.database.write() as connection:
            number = rows.insert_chat(connection, Chat(0, "", True, False, now, now, options, ""))
            return rows.get_chat(connection, number)[0]

    def get(self, chat_id: int) -> Chat:
        """The chat, also a deleted one until it is purged. Raises `MissingChat`."""
        with self.database.read() as connection:
            return rows.get_chat(connection, chat_id)[0]

    def rename(self, chat_id: int, title: str) -> str:
        """Give the chat a title of the user's; an empty one returns to the automatic title. Returns the title.

        Raises `MissingChat`.
        """
        title = storable(" ".join(title.split()))
        with self.database.write() as connection:
            _, root = rows.get_chat(connection, chat_id)
            stored = title or _title_of(connection, root)
            connection.execute(
                "UPDATE chats SET title = ?, title_is_automatic = ? WHERE id = ?", (stored, not title, chat_id)
            )
        return stored

    def pin(self, chat_id: int, pinned: bool) -> None:
        """Keep the chat at the top of the list, or not any more. Raises `MissingChat`."""
        self._set(chat_id, "pinned = ?", pinned)

    def set_options(self, chat_id: int, options: ChatOptions) -> None:
        """Replace what the user chose for this chat. Raises `MissingChat`."""
        self._set(
            chat_id,
            "system_prompt = ?, sampling = ?, pair = ?, mode = ?",
            *(storable(options.system_prompt), rows.to_json(options.sampling), storable(options.pair), options.mode),
        )

    def save_draft(self, chat_id: int, text: str) -> None:
        """Keep what the user has typed and not sent. Raises `MissingChat`."""
        self._set(chat_id, "draft = ?", storable(text))

    def save_draft_files(self, chat_id: int, files: Sequence[TextFile]) -> None:
        """Keep the files that are attached to what the user has not sent, in place of those before.

        Raises `MissingChat`.
        """
        files = [TextFile(storable(file.name), storable(file.text)) for file in files]
        with self.database.write() as connection:
            rows.get_chat(connection, chat_id)
            connection.execute("DELETE FROM draft_files WHERE chat_id = ?", (chat_id,))
            if stored := rows.to_json(files):
                connection.execute("INSERT INTO draft_files (chat_id, files) VALUES (?, ?)", (chat_id, stored))

    def draft_files(self, chat_id: int) -> tuple[TextFile, ...]:
        """The files that are attached and not sent."""
        with self.database.read() as connection:
            row = connection.execute("SELECT files FROM draft_files WHERE chat_id = ?", (chat_id,)).fetchone()
            return rows.from_json(row[0], tuple[TextFile, ...]) or () if row else ()

    # ----------------------------------------------------------------- deletion

    def delete(self, chat_id: int) -> None:
        """Take the chat from list and search; `restore` brings it back until `purge`. Raises `MissingChat`."""
        self._set(chat_id, "deleted_ms = ?", database.now_ms())

    def restore(self, chat_id: int) -> None:
        """Undo `delete`. Raises `MissingChat`."""
        self._set(chat_id, "deleted_ms = NULL")

    def purge(self, deleted_before_ms: int) -> int:
        """Remove chats for good that were deleted before that time; returns how many."""
        with self.database.write() as connection:
            done = connection.execute("DELETE FROM chats WHERE deleted_ms < ?", (deleted_before_ms,))
            return done.rowcount

    # ----------------------------------------------------------- list and search

    def page(self, limit: int, after: ChatSummary | None = None) -> tuple[ChatSummary, ...]:
        """Chats in the list's order, pinned ones first, then by last use: at most `limit` behind `after`."""
        where = ""
        values: tuple[int, ...] = ()
        if after is not None:
            where = "AND (pinned, updated_ms, id) < (?, ?, ?)"
            values = (after.pinned, after.updated_ms, after.id)
        with self.database.read() as connection:
            found = connection.execute(
                f"""SELECT {rows.SUMMARY} FROM chats WHERE deleted_ms IS NULL {where}
                    ORDER BY pinned DESC, updated_ms DESC, id DESC LIMIT ?""",
                (*values, limit),
            )
            return tuple(map(rows.summary, found))

    def search(self, text: str, limit: int = 50) -> tuple[Hit, ...]:
        """Chats with all the words of `text` in their title, or in one message: titles first, newest first.

        Case and accents do not matter, and the last word may be unfinished. Any text is allowed. In scripts without
        spaces, and among emoji, a part of a sentence is found too.
        """
        wanted = query(text)
        if wanted is None:
            return ()
        hits: dict[int, Hit] = {}
        with self.database.read() as connection:
            for *row, title in connection.execute(_TITLES_FOUND, (wanted, limit)):
                hits[row[0]] = Hit(rows.summary(row), pieces(title), None, ())
            if len(hits) < limit:
                _add_messages_found(connection, wanted, limit, hits)
        return tuple(hits.values())

    def _set(self, chat_id: int, assignments: str, *values: object) -> None:
        with self.database.write() as connection:
            done = connection.execute(f"UPDATE chats SET {assignments} WHERE id = ?", (*values, chat_id))
            if done.rowcount == 0:
                raise rows.missing_chat(chat_id)


def _title_of(connection: sqlite3.Connection, root: int | None) -> str:
    row = connection.execute("SELECT content, attachments FROM messages WHERE id = ?", (root,)).fetchone()
    if row is None:
        return ""
    files = rows.from_json(row[1], tuple[Attachment, ...]) or ()
    return automatic_title(typed_text(row[0], files) or row[0])


def _add_messages_found(connection: sqlite3.Connection, wanted: str, limit: int, hits: dict[int, Hit]) -> None:
    seen = set(hits)

    def is_new_chat(chat_id: int) -> bool:
        is_new = chat_id not in seen
        seen.add(chat_id)
        return is_new

    connection.create_function("is_new_chat", 1, is_new_chat)
    with closing(connection.execute(_MESSAGES_FOUND, (wanted,))) as found:
        for *row, message_id, snippet in found:
            if snippet is not None:
                chat = rows.summary(row)
                hits[chat.id] = Hit(chat, (Piece(chat.title, False),), message_id, pieces(snippet))
                if len(hits) == limit:
                    return
