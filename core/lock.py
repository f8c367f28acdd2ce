"""Locks between programs: one engine a machine, with the name of its holder; one program at a time at a file."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from core.errors import EngineBusy
from core.paths import state_dir


class Holder(msgspec.Struct, frozen=True):
    """Who holds the engine."""

    owner: str
    """`window` or `terminal`."""
    pid: int


class EngineLock:
    """Held from `acquire` to `release` or the end of the process, however it ends."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._file: IO[bytes] | None = None

    def acquire(self) -> None:
        """Take the lock; harmless where it is held already. Raises `EngineBusy` where another process has it."""
        if self._file is not None:
            return
        file = (state_dir() / "engine.lock").open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _read_holder(file)
            file.close()
            raise EngineBusy(
                f"Another Mirror SD {holder.owner} (process {holder.pid}) is using the model.",
                "Close it, or unload its model, then try again.",
                str(error),
            ) from error
        file.truncate(0)
        file.write(msgspec.json.encode(Holder(self._owner, os.getpid())))
        file.flush()
        self._file = file

    def release(self) -> None:
        """Give the lock back; harmless where it is not held."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _read_holder(file: IO[bytes]) -> Holder:
    file.seek(0)
    try:
        return msgspec.json.decode(file.read(), type=Holder)
    except (msgspec.DecodeError, RecursionError):
        return Holder("program", 0)  # the holder has not written its name yet


_POLL_S = 0.02


@contextmanager
def held_alone(path: Path, timeout_s: float) -> Iterator[None]:
    """One program at a time is within the block; `path` is made for it and stays.

    Raises `TimeoutError` where another one is too long, and other `OSError`s where the file cannot be made.
    """
    with path.open("ab") as file:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{path} is held by another program") from error
            time.sleep(_POLL_S)
        yield
