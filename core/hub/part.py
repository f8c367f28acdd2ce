"""The beginning of a file on the disk, hashed as it grows. All of it runs in threads, one call at a time."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import IO

from core.errors import ChecksumFailed, MirrorError
from core.hub.cache import blobs_dir, disk_error, part_path
from core.hub.listing import ListedFile
from core.hub.settings import OTHER_ADDRESS

_READ_BYTES = 1024 * 1024
_SHA256_DIGITS = 64


class Part:
    """What has arrived of a file; `bytes_here` is its length.

    A part needs no record beside it: it is named by its content and only ever appended to, so whatever length a crash
    leaves is a beginning of the right content, or the final hash tells.
    """

    def __init__(self, cache: Path, repo: str, file: ListedFile) -> None:
        self._cache = cache
        self._file = file
        self._path = part_path(cache, repo, file.etag)
        self._blob = blobs_dir(cache, repo) / file.etag
        self._stream: IO[bytes] | None = None
        self._hash = _new_hash(file)
        self._stop = Event()
        self._failed: MirrorError | None = None
        self.bytes_here = 0

    def open(self) -> None:
        """Open or create the file and hash what it holds; one that is too long is emptied. Raises as the disk does."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            adopted = self._adopt()
            self._stream = self._path.open("a+b", buffering=0)
            if os.fstat(self._stream.fileno()).st_size > self._file.bytes:
                self._stream.truncate(0)
            self._stream.seek(0)
            while not self._stop.is_set() and (block := self._stream.read(_READ_BYTES)):
                self._hash.update(block)
                self.bytes_here += len(block)
            if adopted and not self._stop.is_set() and self._hash.hexdigest() != self._file.etag:
                self.restart()  # the other model's is damaged
        except OSError as error:
            raise disk_error(error, self._path) from error

    def _adopt(self) -> bool:
        """Begin with a copy of what another model in the cache has under the same sha256; whether there was one."""
        if self._path.exists() or len(self._file.etag) != _SHA256_DIGITS:
            return False
        for twin in self._cache.glob(f"models--*/blobs/{self._file.etag}"):
            if twin != self._blob and twin.is_file() and twin.stat().st_size == self._file.bytes:
                shutil.copyfile(twin, self._path)
                return True
        return False

    def stop(self) -> None:
        """Ends a long `open` from another thread; the part is then only to be closed."""
        self._stop.set()

    def append(self, chunks: Sequence[bytes]) -> None:
        """Add what arrived. Raises `DiskFull` or `CacheNotWritable`, and from then on for every block after it."""
        assert self._stream is not None, "the part is not open"
        if self._failed is not None:
            raise self._failed
        block = b"".join(chunks)
        rest = memoryview(block)
        try:
            while rest:
                rest = rest[self._stream.write(rest) :]
        except OSError as error:
            self._failed = disk_error(error, self._path)
            raise self._failed from error
        self._hash.update(block)
        self.bytes_here += len(block)

    def restart(self) -> None:
        """Forget what has arrived."""
        assert self._stream is not None, "the part is not open"
        self._stream.truncate(0)
        self._hash = _new_hash(self._file)
        self.bytes_here = 0

    def finish(self) -> None:
        """Make the whole and right part the content. Raises `ChecksumFailed` and removes it where it is not right."""
        assert self._stream is not None, "the part is not open"
        if self._hash.hexdigest() != self._file.etag:
            self._path.unlink()
            raise ChecksumFailed(
                f"{self._file.name} arrived damaged: its checksum is wrong.",
                "Try again: this file alone is fetched anew. If it stays, " + OTHER_ADDRESS + ".",
                f"{self._hash.hexdigest()} instead of {self._file.etag}, {self.bytes_here} bytes",
            )
        try:
            os.fsync(self._stream.fileno())
            self._path.replace(self._blob)
        except OSError as error:
            raise disk_error(error, self._path) from error

    def close(self) -> None:
        """Let go of the file."""
        if self._stream is not None:
            self._stream.close()


def _new_hash(file: ListedFile) -> hashlib._Hash:
    """Git names small files by the sha1 of a header and the content."""
    if len(file.etag) == _SHA256_DIGITS:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.bytes)
