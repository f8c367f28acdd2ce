"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def replace_file(path: Path, content: bytes, *, program: bool = False, private: bool = False) -> None:
    """Write a file whole or not at all, also where several processes or threads do so.

    A `program` can be run; a `private` file is for the user's eyes only, from its first byte on. Nothing lies about
    where that failed.
    """
    scratch = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        if private:
            scratch.touch(mode=0o600)
        scratch.write_bytes(content)
        if program:
            scratch.chmod(0o755)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def identity(path: Path) -> str:
    """Stands for a file as it is now: another one in its place, or a change of it, gives another. Raises `OSError`."""
    about = path.stat()
    return f"{path}|{about.st_size}|{about.st_mtime_ns}"
