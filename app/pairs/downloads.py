"""The downloads of pairs: a target's and a draft's as one, each with its state."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
from PySide6.QtCore import QObject, Signal

from app.tasks import Tasks
from core.errors import Problem
from core.hub.download import Download
from core.hub.plan import DownloadPlan
from core.hub.progress import ENDED, DownloadProgress, FileProgress, State
from core.hub.queue import DownloadQueue
from core.hub.retry import Patience
from core.hub.settings import HubSettings

_TOLD_EVERY_S = 0.1
# The state of a pair is the first of these that one of its models is in.
_FIRST: tuple[State, ...] = (
    "downloading",
    "verifying",
    "stalled",
    "checking",
    "queued",
    "paused",
    "failed",
    "cancelled",
    "done",
)


@dataclass(frozen=True)
class PairProgress:
    """How far a pair is: the sum over its models."""

    state: State
    bytes_done: int
    bytes_total: int
    bytes_per_s: float | None
    left_s: float | None
    attempt: int
    attempts: int
    problem: Problem | None
    files: tuple[FileProgress, ...]
    """Of all models; where there are several, under their models' names."""

    @property
    def percent(self) -> int:
        """Rounded down, so that 100 is all of it."""
        return 100 * self.bytes_done // self.bytes_total if self.bytes_total else 0


@dataclass
class _Entry:
    plans: tuple[DownloadPlan, ...]
    downloads: list[Download]
    wish: Literal["going", "paused", "cancelled"] = "going"
    """The user's, which decides while a model is shared with another pair."""
    ending: Sequence[Download] = ()
    """Those that a cancel waits for."""


def merged(models: Sequence[DownloadProgress], plans: Sequence[DownloadPlan]) -> PairProgress:
    """The progress over several models; the plan stands for what a model does not tell before its turn."""
    done = total = 0
    for model, plan in zip(models, plans, strict=True):
        known = model.bytes_total > 0
        total += model.bytes_total if known else plan.bytes_total
        done += model.bytes_done if known else plan.bytes_total - plan.bytes_to_fetch
    state = next(state for state in _FIRST if any(model.state == state for model in models))
    leading = next(model for model in models if model.state == state)
    rate = sum(model.bytes_per_s or 0.0 for model in models) or None
    problem = leading.problem or next((model.problem for model in models if model.problem), None)
    left_s = (total - done) / rate if rate else None
    files = tuple(file for model, plan in zip(models, plans, strict=True) for file in _files(model, plan, len(models)))
    return PairProgress(state, done, total, rate, left_s, leading.attempt, leading.attempts, problem, files)


def _files(model: DownloadProgress, plan: DownloadPlan, models: int) -> list[FileProgress]:
    planned = [
        FileProgress(
            each.file.name, "queued" if each.bytes_here < each.file.bytes else "done", each.bytes_here, each.file.bytes
        )
        for each in plan.files
    ]
    prefix = f"{model.repo.rpartition('/')[2]}/" if models > 1 else ""
    return [msgspec.structs.replace(file, name=f"{prefix}{file.name}") for file in model.files or planned]


class Downloads(QObject):
    """Runs them one after the other. Two pairs with the same draft share its download."""

    changed = Signal(str)
    """The pair's id."""

    def __init__(self, settings: HubSettings, patience: Patience | None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._queues = [DownloadQueue(settings, patience)]
        self._entries: dict[str, _Entry] = {}
        self._tasks = Tasks()

    def use(self, settings: HubSettings, patience: Patience | None) -> None:
        """Where downloads that are lined up from now on come from. Those under way go on as they began."""
        self._queues.append(DownloadQueue(settings, patience))

    @property
    def _queue(self) -> DownloadQueue:
        return self._queues[-1]

    def start(self, pair: str, plans: Sequence[DownloadPlan]) -> None:
        """Line a pair's models up."""
        entry = self._entries[pair] = _Entry(tuple(plans), [self._queue.add(plan.request) for plan in plans])
        for download in entry.downloads:
            if download.progress.state == "paused":
                download.resume()
            self._tasks.start(self._watch(download))
        self.changed.emit(pair)

    def progress(self, pair: str) -> PairProgress | None:
        """How far a pair is; None where it is not lined up."""
        entry = self._entries.get(pair)
        if entry is None:
            return None
        progress = merged([download.progress for download in entry.downloads], entry.plans)
        if entry.wish != "going" and progress.state not in ENDED:
            return replace(progress, state=entry.wish, bytes_per_s=None, left_s=None)
        return progress

    def under_way(self) -> tuple[PairProgress, ...]:
        """Of all pairs whose download has not ended."""
        found = [self.progress(pair) for pair in self._entries]
        return tuple(each for each in found if each is not None and each.state not in ENDED)

    def pause(self, pair: str) -> None:
        """Stop at once and keep what has arrived. What another pair waits for goes on."""
        self._entries[pair].wish = "paused"
        for download in self._not_wanted_by(pair, "going"):
            download.pause()
        self.changed.emit(pair)

    def resume(self, pair: str) -> None:
        """Go on after a pause, a failure or a cancel."""
        entry = self._entries[pair]
        entry.wish = "going"
        for download in entry.downloads:
            if download.progress.state in ("failed", "cancelled"):
                self._queue.start(download)
                self._tasks.start(self._watch(download))
            else:
                download.resume()
        self.changed.emit(pair)

    def cancel(self, pair: str, *, keep: bool) -> None:
        """Stop at once; keep or delete what has arrived. What another pair waits for stays."""
        entry = self._entries[pair]
        entry.wish = "cancelled"
        entry.ending = self._not_wanted_by(pair, "going", "paused")
        for download in entry.ending:
            download.cancel(keep=keep)
        self.changed.emit(pair)
        self._drop_cancelled()

    def forget(self, pair: str) -> None:
        """Drop an ended download from the list."""
        self._entries.pop(pair, None)
        self.changed.emit(pair)

    async def close(self) -> None:
        """Stop all; what has arrived is kept."""
        for queue in self._queues:
            await queue.close()
        await self._tasks.cancel_all()

    def _not_wanted_by(self, pair: str, *wishes: str) -> list[Download]:
        """The pair's downloads that no other pair with such a wish has."""
        others = [
            download
            for other, entry in self._entries.items()
            if other != pair and entry.wish in wishes
            for download in entry.downloads
        ]
        return [download for download in self._entries[pair].downloads if download not in others]

    async def _watch(self, download: Download) -> None:
        async for _ in download.watch():
            self._tell(download)
            await asyncio.sleep(_TOLD_EVERY_S)
        self._drop_cancelled()

    def _drop_cancelled(self) -> None:
        for pair, entry in list(self._entries.items()):
            if entry.wish == "cancelled" and all(each.progress.state in ENDED for each in entry.ending):
                self.forget(pair)

    def _tell(self, download: Download) -> None:
        for pair, entry in list(self._entries.items()):
            if download in entry.downloads:
                self.changed.emit(pair)
