"""One model's download: its states, and what the user may do in each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from core.activity import working
from core.errors import Cancelled, ChecksumFailed, DiskFull, InternalError, MirrorError, Problem, WrongLength
from core.hub.cache import disk_full, free_bytes, publish
from core.hub.client import HubClient
from core.hub.leftovers import remove_unpublished
from core.hub.listing import Listing, list_model
from core.hub.local import find_local
from core.hub.plan import DownloadPlan, DownloadRequest, check_space, make_plan
from core.hub.progress import ENDED, DownloadProgress, RateMeter, State
from core.hub.retry import Patience
from core.hub.settings import HubSettings
from core.hub.threads import in_thread
from core.hub.transfer import FileTransfer

FILES_AT_ONCE = 2
TICK_S = 0.25
STALL_SHOWN_S = 3.0
"""Without a byte, after which the user is told, long before the connection is given up."""


class Download:
    """Fetches one model: `run` it as a task, `watch` it, `pause`, `resume` and `cancel` it from the same loop.

    A download that failed may `run` again. Downloads that share a `slot` take turns.
    """

    def __init__(
        self,
        settings: HubSettings,
        request: DownloadRequest,
        patience: Patience | None = None,
        slot: asyncio.Semaphore | None = None,
    ) -> None:
        self.request = request
        self._settings = settings
        self._patience = patience or Patience()
        self._slot = slot or asyncio.Semaphore(1)
        self.plan: DownloadPlan | None = None
        self._listing: Listing | None = None
        self._transfers: tuple[FileTransfer, ...] = ()
        self._state: State = "queued"
        self._problem: Problem | None = None
        self._meter = RateMeter()
        self._folder = ""
        self._work: asyncio.Task[Path] | None = None
        self._wanted: State = "downloading"
        self._keep = True
        self._begun = False
        self._interrupted = False
        self._go = asyncio.Event()
        self._watchers: set[asyncio.Event] = set()

    # ------------------------------------------------------------------ the user

    def pause(self) -> None:
        """Stop the transfer at once and keep what has arrived."""
        if self._state not in ENDED:
            self._wanted, self._problem = "paused", None
            self._interrupt()
            self._become("paused")

    def resume(self) -> None:
        """Go on after a pause, also one for want of space."""
        if self._state == "paused":
            self._wanted = "downloading"
            self._problem = None
            self._become("queued")
            self._go.set()

    def cancel(self, *, keep: bool) -> None:
        """Stop the transfer at once; `keep` what has arrived for a later download, or delete it."""
        if self._state not in ENDED:
            self._wanted, self._keep = "cancelled", keep
            self._interrupt()
            self._go.set()

    def _interrupt(self) -> None:
        self._go.clear()
        if self._work is not None:
            self._interrupted = True
            self._work.cancel()

    # ---------------------------------------------------------------- its course

    def line_up(self) -> None:
        """Leave the end that it has come to, for another run; nothing where it has not ended."""
        if self._state in ENDED:
            self._wanted, self._problem = "downloading", None
            self._listing, self._begun = None, False
            self._become("queued")

    async def run(self) -> Path:
        """Until the model is in the cache; its folder. Raises `MirrorError`, of which `Cancelled` is one."""
        self.line_up()
        try:
            while (folder := await self._step()) is None:
                pass
        except MirrorError as error:
            self._problem = error.problem
            self._become("cancelled" if isinstance(error, Cancelled) else "failed")
            raise
        except asyncio.CancelledError:  # the program ends
            self._become("cancelled")
            raise
        except Exception as error:  # those who watch must not wait for ever
            self._problem = InternalError(
                "The download met a defect of this program.", "Try again.", repr(error)
            ).problem
            self._become("failed")
            raise
        self._folder = str(folder)
        self._become("done")
        return folder

    async def _step(self) -> Path | None:
        """What the user wants now: the folder once it is there, None where that changed or something was met."""
        if self._wanted == "cancelled":
            if not self._keep and self._listing is not None:
                await in_thread(remove_unpublished, self._settings.cache_dir, self._listing)
            raise Cancelled(f"The download of {self.request.repo} was cancelled.")
        if self._wanted == "paused":
            await self._rest()
            return None
        self._interrupted = False
        self._work = asyncio.create_task(self._turn())
        try:
            return await self._work
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._interrupted or (task is not None and task.cancelling()):
                raise  # not the user's wish
        except DiskFull as error:
            if not self._begun:
                raise
            if self._wanted == "downloading":
                self._wanted, self._problem = "paused", error.problem
                self._go.clear()
                self._become("paused")
        finally:
            self._work = None
            self._tell()
        return None

    async def _rest(self) -> None:
        """Until the user goes on; where the disk was full, also until it has room."""
        if self._problem is None:
            await self._go.wait()
            return
        try:
            await asyncio.wait_for(self._go.wait(), self._patience.space_poll_s)
        except TimeoutError:
            if await in_thread(free_bytes, self._settings.cache_dir) >= self._missing_bytes:
                self.resume()

    async def _turn(self) -> Path:
        async with self._slot:
            self._become("checking")
            with working("Downloading a model"):
                async with HubClient(self._settings, self._patience.stall_s, self._patience.questions) as hub:
                    return await self._fetch(hub)

    async def _fetch(self, hub: HubClient) -> Path:
        cache, request = self._settings.cache_dir, self.request
        if self._settings.offline and (here := await in_thread(find_local, cache, request.repo, request.revision)):
            return here
        # A download that was paused keeps to its commit.
        listing = self._listing = self._listing or await list_model(hub, request.repo, request.revision)
        plan = self.plan = await in_thread(make_plan, cache, request, listing)
        self._transfers = tuple(
            FileTransfer(hub, request.repo, plan.commit, planned, self._patience.retry, self._tell)
            for planned in plan.files
        )
        check_space(plan, cache)
        self._begun = True
        self._become("downloading")
        await self._transfer()
        files = [planned.file for planned in plan.files]
        return await in_thread(publish, cache, request.repo, plan.commit, request.revision, files)

    async def _transfer(self) -> None:
        """All files, some at once. One that arrives damaged does not stop the others, but the model then fails."""
        self._meter = RateMeter()
        at_once = asyncio.Semaphore(FILES_AT_ONCE)
        damaged: list[MirrorError] = []

        async def fetch(transfer: FileTransfer) -> None:
            try:
                await transfer.fetch(at_once)
            except (ChecksumFailed, WrongLength) as error:
                damaged.append(error)

        try:
            async with asyncio.TaskGroup() as group:
                ticking = group.create_task(self._tick())
                async with asyncio.TaskGroup() as files:
                    for transfer in self._transfers:
                        files.create_task(fetch(transfer))
                ticking.cancel()
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        if damaged:
            raise damaged[0]

    async def _tick(self) -> None:
        """Measure the rate, look at the disk, tell those who watch."""
        while True:
            self._meter.sample(time.monotonic(), sum(transfer.received for transfer in self._transfers))
            missing = self._missing_bytes
            if await in_thread(free_bytes, self._settings.cache_dir) < missing:
                raise disk_full(self._settings.cache_dir, missing)
            self._tell()
            await asyncio.sleep(TICK_S)

    # ---------------------------------------------------------------- what is told

    @property
    def _missing_bytes(self) -> int:
        return sum(transfer.file.bytes - transfer.bytes_done for transfer in self._transfers)

    @property
    def progress(self) -> DownloadProgress:
        """How far it is now."""
        state = self._shown_state()
        total = sum(transfer.file.bytes for transfer in self._transfers)
        rate = self._meter.bytes_per_s() if state == "downloading" else None
        met = [transfer.problem for transfer in self._transfers if transfer.problem is not None]
        return DownloadProgress(
            repo=self.request.repo,
            revision=self.request.revision,
            commit=self._listing.commit if self._listing else "",
            state=state,
            bytes_done=total - self._missing_bytes,
            bytes_total=total,
            bytes_per_s=rate,
            left_s=self._missing_bytes / rate if rate else None,
            attempt=max((transfer.attempt for transfer in self._transfers), default=1),
            attempts=self._patience.retry.attempts,
            problem=self._problem or (met[0] if met and state == "stalled" else None),
            files=tuple(transfer.progress for transfer in self._transfers),
            folder=self._folder,
        )

    def _shown_state(self) -> State:
        """While files are under way, the state of the one that is furthest from standing still."""
        if self._state != "downloading":
            return self._state
        states = {transfer.progress.state for transfer in self._transfers}
        if "downloading" in states and self._meter.quiet_s() < STALL_SHOWN_S:
            return "downloading"
        order: tuple[State, ...] = ("verifying", "checking")
        busy = [state for state in order if state in states]
        return busy[0] if busy else "stalled" if states & {"stalled", "downloading"} else "downloading"

    async def watch(self) -> AsyncIterator[DownloadProgress]:
        """The progress now and whenever it changes, some times a second, until the download ends."""
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            while (progress := self.progress).state not in ENDED:
                yield progress
                await changed.wait()
                changed.clear()
            yield progress
        finally:
            self._watchers.discard(changed)

    def _become(self, state: State) -> None:
        self._state = state
        self._tell()

    def _tell(self) -> None:
        for watcher in self._watchers:
            watcher.set()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a group; one that is no `MirrorError` is a defect and comes first."""
    leaves = list(_leaves(errors))
    return next((error for error in leaves if not isinstance(error, MirrorError)), leaves[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
