"""The messages of chats: a tree for each, one path of which is shown.

Editing a message adds a sibling to it, and so does another answer to the same message: versions to flip through. Each
message remembers which of its children was chosen last.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict

from core.chats import database, rows
from core.chats.attach import typed_text
from core.chats.database import Database
from core.chats.model import Attachment, EndState, Figures, Message, Role, State
from core.chats.text import automatic_title, storable
from core.chats.writer import Writer
from core.errors import BadRequest, Problem

_PATH = f"""
    WITH RECURSIVE path (id, depth) AS (
        SELECT chosen_root_id, 0 FROM chats WHERE id = ?
        UNION ALL
        SELECT messages.chosen_child_id, depth + 1 FROM path JOIN messages USING (id)
        WHERE messages.chosen_child_id > messages.id -- children are newer: no circle, whatever the file holds
    )
    SELECT {rows.MESSAGE} FROM path JOIN messages USING (id) ORDER BY depth"""
_UP = """
    WITH RECURSIVE up (id, parent_id) AS (
        SELECT id, parent_id FROM messages WHERE id = ?
        UNION ALL
        SELECT messages.id, messages.parent_id FROM up JOIN messages ON messages.id = up.parent_id
    )"""


_PATH_TO = f"{_UP} SELECT {rows.MESSAGE} FROM messages WHERE id IN (SELECT id FROM up) ORDER BY id"


class Messages:
    """Writes and reads messages. Every method may raise the errors of `Database.write`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = Writer(database.path)

    # ------------------------------------------------------------------ reading

    def path(self, chat_id: int) -> tuple[Message, ...]:
        """The chosen messages, from the first to the last. Raises `MissingChat`."""
        with self._database.read() as connection:
            rows.get_chat(connection, chat_id)
            versions = _versions(connection, chat_id)
            return tuple(rows.message(row, versions[row[1]]) for row in connection.execute(_PATH, (chat_id,)))

    def path_to(self, message_id: int) -> tuple[Message, ...]:
        """The messages from the first to this one, whatever is chosen. Raises `MissingMessage`."""
        with self._database.read() as connection:
            versions = _versions(connection, _chat_of(connection, message_id))
            return tuple(rows.message(row, versions[row[1]]) for row in connection.execute(_PATH_TO, (message_id,)))

    def get(self, message_id: int) -> Message:
        """One message, chosen or not. Raises `MissingMessage`."""
        with self._database.read() as connection:
            return _get(connection, message_id)

    # ------------------------------------------------------------------ writing

    def add_user(
        self, chat_id: int, parent_id: int | None, content: str, attachments: tuple[Attachment, ...] = ()
    ) -> Message:
        """Add what the user sent behind `parent_id` (None: as a first message), and choose it.

        A message is edited by adding the new text behind the parent of the old one. NUL and lone surrogates are
        stored as U+FFFD. Raises `MissingChat`, `MissingMessage`, and `BadRequest` where `parent_id` is no answer.
        """
        with self._database.write() as connection:
            chat, _ = rows.get_chat(connection, chat_id)
            _check_parent(connection, chat_id, parent_id, "assistant")
            message = _new(parent_id, "user", "complete", content=content, attachments=attachments)
            number = rows.insert_message(connection, chat_id, message, None)
            _choose(connection, number)
            if parent_id is None and chat.title_is_automatic:
                title = automatic_title(typed_text(content, attachments) or content)
                connection.execute("UPDATE chats SET title = ? WHERE id = ?", (title, chat_id))
            _touch(connection, chat_id)
            return _get(connection, number)

    def begin_answer(self, chat_id: int, parent_id: int, pair: str = "") -> Message:
        """Add an empty answer to the user message `parent_id`, and choose it. `pair`: name of the pair that answers.

        Raises `MissingChat`, `MissingMessage`, and `BadRequest` where `parent_id` is no user message.
        """
        with self._database.write() as connection:
            self._writer.show()
            rows.get_chat(connection, chat_id)
            _check_parent(connection, chat_id, parent_id, "user")
            message = _new(parent_id, "assistant", "running", pair=pair)
            number = rows.insert_message(connection, chat_id, message, self._writer.name)
            _choose(connection, number)
            _touch(connection, chat_id)
            return _get(connection, number)

    def resume_answer(self, answer_id: int) -> None:
        """Go on writing an answer that had ended. Raises `MissingMessage`."""
        with self._database.write() as connection:
            self._writer.show()
            _update(connection, answer_id, "state = 'running', writer = ?", self._writer.name)

    def checkpoint(self, answer_id: int, content: str, thinking: str = "") -> None:
        """Keep what is known of the answer so far, whole. Call it every second. Raises `MissingMessage`."""
        with self._database.write() as connection:
            _update(connection, answer_id, "content = ?, thinking = ?", storable(content), storable(thinking))

    def finish(
        self,
        answer_id: int,
        content: str,
        thinking: str = "",
        *,
        state: EndState = "complete",
        figures: Figures | None = None,
        problem: Problem | None = None,
    ) -> None:
        """Keep the answer as it ended. Raises `MissingMessage`."""
        with self._database.write() as connection:
            _update(
                connection,
                answer_id,
                "content = ?, thinking = ?, state = ?, figures = ?, problem = ?, writer = NULL",
                *(storable(content), storable(thinking), state, rows.to_json(figures), rows.to_json(problem)),
            )
            _touch(connection, _chat_of(connection, answer_id))

    def choose(self, message_id: int) -> None:
        """Show this version, with what was chosen behind it. Raises `MissingMessage`."""
        with self._database.write() as connection:
            _chat_of(connection, message_id)
            _choose(connection, message_id)

    def end_interrupted(self) -> int:
        """Mark the answers whose program is gone as interrupted; returns how many there were."""
        with self._database.write() as connection:
            writers = connection.execute("SELECT DISTINCT writer FROM messages WHERE state = 'running'").fetchall()
            dead = [name for (name,) in writers if not self._writer.lives(name)]
            self._writer.clear_dead()
            return sum(
                connection.execute(
                    "UPDATE messages SET state = 'interrupted', writer = NULL WHERE state = 'running' AND writer = ?",
                    (name,),
                ).rowcount
                for name in dead
            )

    def close(self) -> None:
        """No more answers are written."""
        self._writer.close()


def _new(
    parent_id: int | None,
    role: Role,
    state: State,
    *,
    content: str = "",
    attachments: tuple[Attachment, ...] = (),
    pair: str = "",
) -> Message:
    return Message(0, parent_id, role, content, "", attachments, state, None, None, pair, database.now_ms(), ())


def _versions(connection: sqlite3.Connection, chat_id: int) -> defaultdict[int | None, list[int]]:
    """The messages below each message of a chat; below None the first ones."""
    versions: defaultdict[int | None, list[int]] = defaultdict(list)
    for number, parent in connection.execute(
        "SELECT id, parent_id FROM messages WHERE chat_id = ? ORDER BY id", (chat_id,)
    ):
        versions[parent].append(number)
    return versions


def _get(connection: sqlite3.Connection, message_id: int) -> Message:
    chat_id = _chat_of(connection, message_id)
    row = connection.execute(f"SELECT {rows.MESSAGE} FROM messages WHERE id = ?", (message_id,)).fetchone()
    versions = connection.execute(
        "SELECT id FROM messages WHERE chat_id = ? AND parent_id IS ? ORDER BY id", (chat_id, row[1])
    )
    return rows.message(row, [number for (number,) in versions])


def _chat_of(connection: sqlite3.Connection, message_id: int) -> int:
    row = connection.execute("SELECT chat_id FROM messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        raise rows.missing_message(message_id)
    chat_id: int = row[0]
    return chat_id


def _check_parent(connection: sqlite3.Connection, chat_id: int, parent_id: int | None, role: Role) -> None:
    if parent_id is None:
        return
    row = connection.execute("SELECT chat_id, role FROM messages WHERE id = ?", (parent_id,)).fetchone()
    if row is None:
        raise rows.missing_message(parent_id)
    if row != (chat_id, role):
        raise BadRequest("This message cannot stand here.", detail=f"chat {chat_id} behind {parent_id}: {row}")


def _update(connection: sqlite3.Connection, message_id: int, assignments: str, *values: str | None) -> None:
    done = connection.execute(f"UPDATE messages SET {assignments} WHERE id = ?", (*values, message_id))
    if done.rowcount == 0:
        raise rows.missing_message(message_id)


def _choose(connection: sqlite3.Connection, message_id: int) -> None:
    """Make the message and all above it the chosen ones."""
    connection.execute(
        f"""{_UP} UPDATE messages SET chosen_child_id = up.id FROM up
            WHERE messages.id = up.parent_id AND messages.chosen_child_id IS NOT up.id""",
        (message_id,),
    )
    connection.execute(
        f"""{_UP} UPDATE chats SET chosen_root_id = up.id FROM up
            WHERE up.parent_id IS NULL AND chats.id = (SELECT chat_id FROM messages WHERE id = up.id)""",
        (message_id,),
    )


def _touch(connection: sqlite3.Connection, chat_id: int) -> None:
    connection.execute("UPDATE chats SET updated_ms = ? WHERE id = ?", (database.now_ms(), chat_id))
