"""Who is writing an answer, and whether it still lives.

A program that writes answers holds a lock on a file of its own beside the chats, which the system frees however the
program ends. An answer whose writer is gone was interrupted.
"""

from __future__ import annotations

import contextlib
import fcntl
import uuid
from pathlib import Path
from typing import IO


class Writer:
    """This program's lock file; made with the first answer. Call within a write transaction of the chats."""

    def __init__(self, chats: Path | None) -> None:
        """`chats`: the chats' file; None where they are in memory only, so that nobody else can ask."""
        self._chats = chats
        self._file: IO[bytes] | None = None
        self.name = uuid.uuid4().hex

    def show(self) -> None:
        """Let others see that this program lives; harmless where they do. Raises `OSError`."""
        if self._chats is not None and self._file is None:
            self._file = _path(self._chats, self.name).open("ab")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def lives(self, name: str) -> bool:
        """Whether the writer of that name is this one, or another program that lives."""
        if name == self.name:
            return True
        if self._chats is None:
            return False
        try:
            with _path(self._chats, name).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def clear_dead(self) -> None:
        """Remove the lock files of programs that are gone."""
        if self._chats is None:
            return
        for file in self._chats.parent.glob(f"{self._chats.name}.writer-*"):
            if not self.lives(file.name.rpartition("-")[2]):
                file.unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing is written any more."""
        if self._chats is not None and self._file is not None:
            with contextlib.suppress(OSError):  # the folder went away or may not be written: the lock is freed anyway
                _path(self._chats, self.name).unlink(missing_ok=True)
            self._file.close()
            self._file = None


def _path(chats: Path, name: str) -> Path:
    return chats.with_name(f"{chats.name}.writer-{name}")
