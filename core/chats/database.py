"""The file: opening it safely, transactions, and what SQLite's errors mean for the user.

Beside `chats.sqlite3` lie SQLite's own `-wal` and `-shm`, a lock for opening, and a mark (`.suspect`) where damage was
met while running: the next start looks at the whole file.
"""

from __future__ import annotations

import errno
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from core.chats import schema
from core.chats.words import segment
from core.errors import (
    ChatsBusy,
    ChatsDiskFull,
    ChatsNotWritten,
    ChatsReadOnly,
    ChatsTooNew,
    CorruptChats,
    MirrorError,
    Problem,
)
from core.lock import held_alone

_log = logging.getLogger(__name__)

_BUSY_TIMEOUT_S = 5.0
_LOG_BYTES = 16_000_000  # what may remain of SQLite's log after a large import
_BESIDE = ("", "-wal", "-shm")


def now_ms() -> int:
    """Milliseconds since 1970 (UTC)."""
    return time.time_ns() // 1_000_000


class Aside(NamedTuple):
    """A damaged file that was kept under another name, and what the user should know of it."""

    path: Path
    problem: Problem


class Database:
    """One connection to the file, used by one thread at a time."""

    def __init__(self, path: Path | None, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        self._lock = threading.RLock()
        self._may_write = False  # the transaction under way
        self._version = schema.version(connection)

    def close(self) -> None:
        """Close the file; harmless where it is closed."""
        with self._lock:
            self.connection.close()

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that may write: kept whole at the end of the block, or not at all. One within it joins it.

        Raises the errors of `words_for`, and `ChatsTooNew` where a newer program has changed the file meanwhile.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A transaction in which all reads see one state of the file. Raises as `write`."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self.connection.in_transaction:
                assert self._may_write or begin == "BEGIN"
                yield self.connection
                return
            self._may_write = begin == "BEGIN IMMEDIATE"
            try:
                with _in_words(self.path):
                    self.connection.execute(begin)
                    if schema.version(self.connection) != self._version:
                        raise _too_new(self.path)
                    yield self.connection
                    self.connection.execute("COMMIT")
            except CorruptChats:
                if self.path is not None:
                    _mark_suspect(self.path)
                raise
            except OSError as error:  # of the writers' lock files
                raise words_for_os(error, self.path) from error
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")


def open_in_memory() -> Database:
    """A database that is gone once it is closed."""
    connection = _connect(":memory:")
    _set_up(connection)
    schema.migrate(connection)
    return Database(None, connection)


def open_file(path: Path) -> tuple[Database, Aside | None]:
    """Open the file, made or brought to the newest version where needed, and tell what the user should know.

    A file that is damaged or is no file of chats is set aside under a name with the date, and a new one begun: the
    second value says so. Raises `ChatsTooNew` (nothing was written then) and the errors of `words_for`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with held_alone(path.with_name(f"{path.name}.lock"), _BUSY_TIMEOUT_S):
            try:
                return Database(path, _open(path)), None
            except CorruptChats as error:
                aside = _set_aside(path, error)
                return Database(path, _open(path)), aside
    except TimeoutError as error:
        raise _busy(path, str(error)) from error
    except OSError as error:
        raise words_for_os(error, path) from error


def _open(path: Path) -> sqlite3.Connection:
    with _in_words(path):
        connection = _connect(path)
        try:
            with _damage(path):
                _examine(connection, path)
            _set_up(connection)
            if schema.version(connection) < len(schema.MIGRATIONS):
                schema.migrate(connection)
            if _suspect(path).exists():
                with _damage(path):
                    _examine_all(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def _in_words(path: Path | None) -> Iterator[None]:
    """Raises what `words_for` says instead of SQLite's errors."""
    try:
        yield
    except sqlite3.Error as error:
        told = words_for(error, path)
        if told is None:
            raise
        raise told from error


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Raises `CorruptChats` also for errors that damage can cause where the file is only looked at."""
    try:
        yield
    except sqlite3.Error as error:
        raise words_for(error, path) or _corrupt(path, str(error)) from error


def _connect(path: Path | str) -> sqlite3.Connection:
    """Reads nothing yet."""
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.create_function("segment", 1, segment, deterministic=True)
    return connection


def _set_up(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = ON")  # or the triggers may not call `segment`
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
    connection.execute("PRAGMA synchronous = FULL")  # a message is on the disk when it was sent


def _examine(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `ChatsTooNew` or `CorruptChats` for a file that is not ours to write, before anything is written."""
    found = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if tables and found != schema.APPLICATION_ID:
        raise _corrupt(path, f"application id {found:#x}, {tables} tables")
    if schema.version(connection) > len(schema.MIGRATIONS):
        raise _too_new(path)


def _examine_all(connection: sqlite3.Connection, path: Path) -> None:
    """Read the whole file; raises `CorruptChats`. The search index, which can be made again, is made again."""
    found = connection.execute("PRAGMA quick_check(5)").fetchall()
    if found != [("ok",)]:
        raise _corrupt(path, "; ".join(str(row[0]) for row in found))
    for index in ("title_index", "message_index"):
        connection.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
    _suspect(path).unlink(missing_ok=True)


def _suspect(path: Path) -> Path:
    return path.with_name(f"{path.name}.suspect")


def _mark_suspect(path: Path) -> None:
    try:
        _suspect(path).touch()
    except OSError as error:
        _log.warning("damage of %s could not be noted: %s", path, error)


def _set_aside(path: Path, error: CorruptChats) -> Aside:
    """Rename the file and what SQLite keeps beside it. Raises `OSError`."""
    stamp = datetime.now().strftime("%Y-%m-%d %H.%M.%S")
    kept = path.with_name(f"{path.stem} damaged {stamp}{path.suffix}")
    number = 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.stem} damaged {stamp} {number}{path.suffix}")
    for ending in reversed(_BESIDE):  # the log stays where another program has the file open
        file = path.with_name(path.name + ending)
        if file.exists():
            file.rename(kept.with_name(kept.name + ending))
    _suspect(path).unlink(missing_ok=True)
    problem = Problem(
        "CorruptChats",
        f"The file with your chats is damaged. It was kept as “{kept.name}”, and a new one was begun.",
        f"A copy of your own can be put back as {path}, while Mirror SD is closed.",
        error.problem.detail,
    )
    return Aside(kept, problem)


def words_for(error: sqlite3.Error, path: Path | None) -> MirrorError | None:
    """What SQLite's error means for the user: `ChatsBusy`, `ChatsDiskFull`, `ChatsReadOnly`, `CorruptChats` or
    `ChatsNotWritten`. None for errors that only a defect of this program can cause.
    """
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest tells variants apart
    detail = f"{path}: {getattr(error, 'sqlite_errorname', '')} {error}"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return _busy(path, detail)
    if code == sqlite3.SQLITE_FULL:
        return _disk_full(path, detail)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return _read_only(path, detail)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _corrupt(path, detail)
    if code == sqlite3.SQLITE_IOERR:
        return ChatsNotWritten(
            "The disk did not read or write the chats.", "Look whether it is full or was taken away.", detail
        )
    return None


def words_for_os(error: OSError, path: Path | None) -> ChatsDiskFull | ChatsReadOnly:
    """The same for errors of the files beside."""
    return _disk_full(path, str(error)) if error.errno == errno.ENOSPC else _read_only(path, str(error))


def _busy(path: Path | None, detail: str) -> ChatsBusy:
    return ChatsBusy("Another program is holding the chats.", f"Close other programs that use {path}.", detail)


def _disk_full(path: Path | None, detail: str) -> ChatsDiskFull:
    hint = f"Make some room on the disk of {path}, then try again."
    return ChatsDiskFull("The disk is full: the chats could not be written.", hint, detail)


def _read_only(path: Path | None, detail: str) -> ChatsReadOnly:
    return ChatsReadOnly("The chats cannot be written.", f"See that you may write to {path} and its folder.", detail)


def _corrupt(path: Path | None, detail: str) -> CorruptChats:
    return CorruptChats(
        "The file with the chats is damaged.",
        "Start Mirror SD again: it keeps the damaged file and begins a new one where it must.",
        f"{path}: {detail}",
    )


def _too_new(path: Path | None) -> ChatsTooNew:
    return ChatsTooNew(
        "A newer version of Mirror SD has written your chats; this one cannot read them.",
        "Use the newer version. Nothing in the file was changed.",
        str(path),
    )
