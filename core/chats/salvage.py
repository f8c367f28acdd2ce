"""What can still be read of a damaged file.

Every row is looked up alone, by its number, so that damage costs only the rows that it hit. Nothing is written to the
damaged file.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from core.chats import rows, schema
from core.chats.store import ChatStore
from core.chats.transfer import CHOSEN_AND_MESSAGE, ExportedChat, add_all, assembled, check
from core.errors import CorruptChats, UnreadableImport

_log = logging.getLogger(__name__)

_Row = Sequence[Any]
_LEAST_ROW_BYTES = 32


class Salvaged(msgspec.Struct, frozen=True):
    """What came out of a damaged file."""

    chats: int
    """Chats that were added, perhaps without some of their messages."""
    lost: int
    """Chats and messages that could not be read, at most: what was purged before may be counted too."""


def salvage(damaged: Path, store: ChatStore) -> Salvaged:
    """Add to `store` the chats that can be read from a file that was set aside. Deleted ones stay deleted.

    A message whose parent is lost is lost with it. May take seconds. Raises the errors of `Database.write`.
    """
    try:
        with closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as source:
            chats, lost = _read(source)
    except sqlite3.DatabaseError as error:
        _log.warning("nothing can be read of %s: %s", damaged, error)
        return Salvaged(0, 0)
    with store.database.write() as connection:
        add_all(connection, chats)
    return Salvaged(len(chats), lost)


def _read(source: sqlite3.Connection) -> tuple[list[ExportedChat], int]:
    """Chats, and how many rows are lost. Raises `sqlite3.DatabaseError` where not even the tables are known."""
    if not 1 <= schema.version(source) <= len(schema.MIGRATIONS):  # what is read here is the same in all of them
        raise sqlite3.DatabaseError(f"tables of version {schema.version(source)}")
    messages, lost = _rows_of(source, "messages", f"{CHOSEN_AND_MESSAGE}, chat_id")
    by_chat: defaultdict[int, list[_Row]] = defaultdict(list)
    for row in messages:
        by_chat[row[-1]].append(row[:-1])
    listed, lost_chats = _rows_of(source, "chats", "id, deleted_ms")
    lost += lost_chats
    chats = []
    for number, deleted_ms in listed:
        if deleted_ms is not None:
            continue
        found = by_chat[number]
        try:
            chat, root = rows.get_chat(source, number)
            root, whole = _whole(root, found)
            exported = assembled(chat, root, whole)
            check(exported, number)
        except (sqlite3.DatabaseError, CorruptChats, UnreadableImport) as error:
            _log.warning("chat %d cannot be read: %s", number, error)
            lost += 1 + len(found)
        else:
            chats.append(exported)
            lost += len(found) - len(whole)
    return chats, lost


def _rows_of(source: sqlite3.Connection, table: str, columns: str) -> tuple[list[_Row], int]:
    """The rows of a table that can be read, and how many cannot."""
    found: list[_Row] = []
    lost = 0
    for number in range(1, _last_number(source, table) + 1):
        try:
            row = source.execute(f"SELECT {columns} FROM {table} WHERE id = ?", (number,)).fetchone()
        except sqlite3.DatabaseError:
            lost += 1
        else:
            found += [] if row is None else [row]
    return found, lost


def _last_number(source: sqlite3.Connection, table: str) -> int:
    try:
        row = source.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        return row[0] if row else 0
    except sqlite3.DatabaseError:
        pages, page_bytes = (source.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages * page_bytes // _LEAST_ROW_BYTES)


def _whole(root: int | None, found: Sequence[_Row]) -> tuple[int | None, list[_Row]]:
    """The messages that hang together; where the chosen one is lost, its newest sibling is chosen."""
    parents = {row[1]: row[2] for row in found}
    kept: dict[int, _Row] = {}
    newest: dict[int | None, int] = {}
    for row in found:
        number, parent = row[1], row[2]
        if parent is None or parent in kept:
            kept[number] = row
            newest[parent] = number
    chosen = {number: row[0] if parents.get(row[0]) == number else newest.get(number) for number, row in kept.items()}
    return root if root in kept else newest.get(None), [(chosen[number], *row[1:]) for number, row in kept.items()]
