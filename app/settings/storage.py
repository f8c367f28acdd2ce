"""What is kept on the disk beside chats and settings: the hub's token, models, beginnings of downloads, kernels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from app.engine import Engine
from app.language import tr
from app.settings.model import SettingsModel
from app.tasks import Tasks
from core.errors import InternalError, MirrorError, Problem, WorkerDied
from core.kernel_messages import CleanKernels, KernelEntry, KernelList, KernelsCleaned, ListKernels
from core.protocol import Event, Failed

if TYPE_CHECKING:
    from core.hub.leftovers import Leftover
    from core.hub.token_store import TokenPlace


@dataclass(frozen=True)
class Storage:
    """What was found; None where it is not known yet."""

    token: TokenPlace | None = None
    token_known: bool = False
    models_bytes: int | None = None
    """Whole files of downloaded models."""
    leftovers: tuple[Leftover, ...] | None = None
    kernels: tuple[KernelEntry, ...] | None = None
    problem: Problem | None = None
    """The last thing that failed."""


class StorageModel(QObject):
    """Measures and cleans, off the event loop; the engine process looks after kernels."""

    changed = Signal()

    def __init__(self, settings: SettingsModel, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self._engine = engine
        self._tasks = Tasks()
        self.storage = Storage()
        settings.changed.connect(self._on_setting)

    def kernels_not_in_use(self) -> tuple[KernelEntry, ...]:
        """Those that the loaded pair has no need of."""
        loaded = self._engine.status.loaded
        used = loaded.pair.draft if loaded else None
        return tuple(entry for entry in self.storage.kernels or () if not used or entry.draft != used)

    def measure(self) -> None:
        """Look anew."""
        self._put(problem=None)
        for work in (self._measure_token, self._measure_models, self._measure_kernels):
            self._start(work())

    def save_token(self, token: str) -> None:
        """Keep a token for the hub."""
        from core.hub.token_store import save_token

        self._start(self._change_token(lambda: save_token(token)))

    def forget_token(self) -> None:
        """Remove the token."""
        from core.hub.token_store import forget_token

        self._start(self._change_token(forget_token))

    def remove_leftovers(self) -> None:
        """Remove the beginnings that were found, where nobody has gone on with them meanwhile."""
        self._start(self._remove_leftovers(self.storage.leftovers or ()))

    def remove_kernels(self) -> None:
        """Remove the kernels that are not in use."""
        self._start(self._remove_kernels(tuple(entry.key for entry in self.kernels_not_in_use())))

    async def close(self) -> None:
        """Give up what is under way."""
        await self._tasks.cancel_all()

    # --------------------------------------------------------------------- work

    async def _measure_token(self) -> None:
        from core.hub.token_store import token_place

        self._put(token=await asyncio.to_thread(token_place), token_known=True)

    async def _change_token(self, change: Callable[[], Any]) -> None:
        await asyncio.to_thread(change)
        await self._measure_token()

    async def _measure_models(self) -> None:
        from core.hub.leftovers import find_leftovers

        cache = self._cache()
        leftovers = await asyncio.to_thread(find_leftovers, cache)
        partial = {leftover.path for leftover in leftovers}
        self._put(leftovers=leftovers, models_bytes=await asyncio.to_thread(_bytes_of_models, cache, partial))

    async def _remove_leftovers(self, leftovers: tuple[Leftover, ...]) -> None:
        from core.hub.leftovers import remove_leftovers

        await asyncio.to_thread(remove_leftovers, self._cache(), leftovers)
        await self._measure_models()

    async def _measure_kernels(self) -> None:
        listed = await self._ask(ListKernels())
        if isinstance(listed, KernelList):
            self._put(kernels=listed.entries)

    async def _remove_kernels(self, keys: tuple[str, ...]) -> None:
        if keys and isinstance(await self._ask(CleanKernels(keys)), KernelsCleaned):
            await self._measure_kernels()

    async def _ask(self, request: ListKernels | CleanKernels) -> Event:
        """The last event. A process that ends meanwhile, as with other settings, is asked once more."""
        for _ in range(2):
            events = [event async for event in await self._engine.send(request)]
            last = events[-1]
            if not isinstance(last, Failed) or last.problem.kind != WorkerDied.__name__:
                break
        if isinstance(last, Failed):
            self._put(problem=last.problem)
        return last

    def _on_setting(self, name: str) -> None:
        if name == "models_folder" and self.storage.models_bytes is not None:
            self._start(self._measure_models())
        elif name == "kernels_folder" and self.storage.kernels is not None:
            self._start(self._measure_kernels())

    def _cache(self) -> Path:
        from core.hub.settings import from_environment

        return from_environment(cache=self._settings.values.models_folder).cache_dir

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(self._carry_out(work))

    async def _carry_out(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except MirrorError as error:
            self._put(problem=error.problem)
        except OSError as error:
            self._put(
                problem=InternalError(tr("The disk could not be read."), tr("Look again later."), str(error)).problem
            )

    def _put(self, **found: Any) -> None:
        self.storage = replace(self.storage, **found)
        self.changed.emit()


def _bytes_of_models(cache: Path, partial: set[str]) -> int:
    blobs = (path for path in cache.glob("models--*/blobs/*") if str(path) not in partial)
    return sum(path.lstat().st_size for path in blobs)
