"""One file's way from the hub into the cache: attempts, pauses between them, verification."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from core.errors import ConnectionLost, MirrorError, Problem, WrongLength
from core.hub.answers import TryAgain
from core.hub.cache import is_here, try_lock
from core.hub.client import Answer, HubClient, unreadable
from core.hub.part import Part
from core.hub.plan import PlannedFile
from core.hub.progress import FileProgress, State
from core.hub.remote import file_url
from core.hub.retry import RetryPolicy
from core.hub.settings import OTHER_ADDRESS
from core.hub.threads import in_thread, settled

BLOCK_BYTES = 512 * 1024  # a kill loses two at most, one on its way to the disk and one that fills: 1 MiB
LOCK_POLL_S = 0.5
_NEW_BYTES = 64 * 1024  # an attempt that brought so much was none in vain
_RANGE_REFUSALS = 2
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class FileTransfer:
    """Fetches one file. `bytes_done`: on the disk or arrived; `received`: what came by the network.

    `tell` is called when its state changes.
    """

    def __init__(
        self,
        hub: HubClient,
        repo: str,
        commit: str,
        planned: PlannedFile,
        retry: RetryPolicy,
        tell: Callable[[], None],
    ) -> None:
        self._tell = tell
        self._hub = hub
        self._repo = repo
        self._commit = commit
        self._retry = retry
        self.file = planned.file
        self._cache: Path = hub.settings.cache_dir
        self._state: State = "done" if planned.bytes_here == planned.file.bytes else "queued"
        self.bytes_done = planned.bytes_here
        self._note = ""
        self._failures = 0
        self._range_refusals = 0
        self.received = 0
        self.attempt = 1
        self.problem: Problem | None = None
        """Of the fault that is being waited out."""

    @property
    def progress(self) -> FileProgress:
        """How far it is."""
        return FileProgress(self.file.name, self._state, self.bytes_done, self.file.bytes, self.attempt, self._note)

    async def fetch(self, slot: asyncio.Semaphore) -> None:
        """Until the content is in the cache, verified. Raises `MirrorError`; what has arrived is kept.

        It holds the `slot` while bytes come, and not while it waits for another program or is verified.
        """
        lock = try_lock(self._cache, self._repo, self.file.etag)
        while lock is None:
            self._note = "another download of this file is under way"
            await asyncio.sleep(LOCK_POLL_S)
            lock = try_lock(self._cache, self._repo, self.file.etag)
        self._note = ""
        try:
            if not await in_thread(is_here, self._cache, self._repo, self._commit, self.file):
                await self._fetch_locked(slot)
            self.bytes_done = self.file.bytes
            self._become("done")
        except asyncio.CancelledError:
            self._become("paused")
            raise
        except MirrorError:
            self._become("failed")
            raise
        finally:
            lock.release()

    async def _fetch_locked(self, slot: asyncio.Semaphore) -> None:
        part = Part(self._cache, self._repo, self.file)
        try:
            async with slot:
                self._become("checking")
                await self._open(part)
                await self._attempts(part)
            self._become("verifying")
            await in_thread(part.finish)
        finally:
            await in_thread(part.close)

    def _become(self, state: State) -> None:
        self._state = state
        self._tell()

    async def _open(self, part: Part) -> None:
        opening = asyncio.get_running_loop().run_in_executor(None, part.open)
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            part.stop()
            await settled(opening)
            raise
        self.bytes_done = part.bytes_here

    async def _attempts(self, part: Part) -> None:
        self._become("downloading")
        while part.bytes_here < self.file.bytes:
            before = part.bytes_here
            try:
                await self._attempt(part)
            except TryAgain as fault:
                self._failures = 1 if part.bytes_here - before >= _NEW_BYTES else self._failures + 1
                await self._pause(fault)

    async def _pause(self, fault: TryAgain) -> None:
        """Wait before the next attempt; raises the fault's own error after the last one."""
        if self._failures == self._retry.attempts:
            raise fault.error from fault
        self.attempt, self.problem = self._failures + 1, fault.error.problem
        pause_s = self._retry.pause_s(self._failures, fault)
        self._note = f"stalled, retrying {self.attempt}/{self._retry.attempts} in {pause_s:.0f} s"
        self._become("stalled")
        await asyncio.sleep(pause_s)
        self._note = f"stalled, retrying {self.attempt}/{self._retry.attempts}"

    def _arrived(self, count: int) -> None:
        self.bytes_done += count
        self.received += count
        self.attempt, self.problem, self._note = 1, None, ""
        if self._state != "downloading":
            self._become("downloading")

    async def _attempt(self, part: Part) -> None:
        start = part.bytes_here
        url = file_url(self._hub.settings.endpoint, self._repo, self._commit, self.file.name)
        async with self._hub.open(url, f"{start}-" if start else "") as answer:
            await self._check(answer, part)
            blocks = _Blocks(part)
            try:
                async for chunk in answer.chunks():
                    self._arrived(len(chunk))
                    if self.bytes_done > self.file.bytes:
                        raise self._wrong_length(answer.host, "more")
                    await blocks.add(chunk)
            finally:  # whatever ended it: what has arrived is kept
                try:
                    await blocks.finish()
                finally:
                    self.bytes_done = part.bytes_here
        if part.bytes_here < self.file.bytes:
            lost = ConnectionLost(f"The connection to {answer.host} broke off.", "Try again; what has arrived is kept.")
            raise TryAgain(lost)

    async def _check(self, answer: Answer, part: Part) -> None:
        """Before the body: that it is of the right file and begins where the part ends."""
        if answer.linked_size not in {None, self.file.bytes}:
            raise self._wrong_length(answer.host, f"{answer.linked_size} bytes instead of")
        start = part.bytes_here
        if answer.status == 206 and not answer.encoded:
            found = _CONTENT_RANGE.fullmatch(answer.content_range)
            if found is None or int(found[1]) != start:
                raise TryAgain(unreadable(answer.host, f"asked for {start}-, got {answer.content_range!r}"))
            if found[2] not in {"*", str(self.file.bytes)}:
                raise self._wrong_length(answer.host, f"{found[2]} bytes instead of")
        elif start:
            await self._refused_range(answer, part)
        elif answer.body_bytes not in {None, self.file.bytes}:
            raise self._wrong_length(answer.host, f"{answer.body_bytes} bytes instead of")

    async def _refused_range(self, answer: Answer, part: Part) -> None:
        """A server that sends no rest of a file is asked once more, then for the whole file."""
        self._range_refusals += 1
        refused = TryAgain(unreadable(answer.host, f"status {answer.status} for bytes {part.bytes_here}-"))
        if self._range_refusals < _RANGE_REFUSALS:
            raise refused
        await in_thread(part.restart)
        self.bytes_done = 0
        if answer.status != 200:
            raise refused

    def _wrong_length(self, host: str, how: str) -> WrongLength:
        return WrongLength(
            f"{host} has another {self.file.name}: {how} {self.file.bytes}.",
            f"Try again later, or choose another mirror: {OTHER_ADDRESS}.",
            f"etag {self.file.etag}",
        )


class _Blocks:
    """Gathers chunks into blocks and writes one in a thread while the next fills."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._chunks: list[bytes] = []
        self._bytes = 0
        self._writing: asyncio.Future[None] | None = None

    async def add(self, chunk: bytes) -> None:
        """May wait until the disk has taken the block before. Raises as `Part.append`."""
        self._chunks.append(chunk)
        self._bytes += len(chunk)
        if self._bytes >= BLOCK_BYTES:
            await self._hand_over()

    async def finish(self) -> None:
        """Until all is on the disk."""
        if self._chunks:
            await self._hand_over()
        await self._written()

    async def _hand_over(self) -> None:
        await self._written()
        chunks, self._chunks, self._bytes = self._chunks, [], 0
        self._writing = asyncio.get_running_loop().run_in_executor(None, self._part.append, chunks)

    async def _written(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            await settled(writing)
