"""Measures for how long the window's event loop does not come round while the picker opens and a pair is downloaded."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import qasync
from PySide6.QtWidgets import QApplication

from app.engine import Engine
from app.main_window import MainWindow
from app.pairs.picker import PairPicker
from app.pairs.sources import PairSources
from app.preload import preload
from core.bench.hub import LoopWatch
from core.bench.rows import Row, row
from core.errors import DemoTargetMissing
from core.hub.settings import HubSettings
from core.pairs import Pair

_LOOK_S = 0.02
_REST_S = 0.5
_NAMES = {
    "first": "window: longest block while the picker opens for the first time",
    "first, computing": "window: longest block while the picker opens for the first time, own computing",
    "again": "window: longest block while it opens again",
    "download": "window: longest block during a download",
    "download, computing": "window: longest block during a download, own computing",
    "idle": "window: longest block without anything to do",
}


def window_rows(app: QApplication, endpoint: str, pair: str, catalog: Path, folder: Path, runs: int) -> list[Row]:
    """Download the `pair` of a catalog in the picker of a dressed `app`, `runs` times into a fresh cache.

    `catalog` is the folder of the catalog that names the pair, `folder` holds the caches meanwhile. The first window
    opens with the built-in catalog, whose cards are more.
    """
    found: dict[str, list[float]] = {name: [] for name in _NAMES}
    with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(app)) as runner:
        for _ in range(runs):
            settings = HubSettings(endpoint, cache=str(folder / "window"))
            runner.run(_opening(PairSources(settings, folder), found))
            runner.run(_downloading(PairSources(settings, folder, catalog), pair, found))
            shutil.rmtree(settings.cache_dir)
    return [row(_NAMES[name], "ms", values) for name, values in found.items()]


async def _opening(sources: PairSources, found: dict[str, list[float]]) -> None:
    window = _window(sources)
    found["idle"].append((await _watched(asyncio.sleep(_REST_S))).longest_ms)
    preload().join()  # as the window does when it has been open for a second
    first = await _watched(_opened(window))
    found["first"].append(first.longest_ms)
    found["first, computing"].append(first.longest_cpu_ms)
    assert window.picker is not None
    window.picker.close()
    found["again"].append((await _watched(_opened(window))).longest_ms)
    await _close(window)


async def _downloading(sources: PairSources, pair: str, found: dict[str, list[float]]) -> None:
    window = _window(sources)
    picker = await _opened(window)
    card = picker._cards[pair]
    card.get.click()
    await _until(card.agree.isVisible)

    async def downloaded() -> None:
        card.agree.click()
        await _until(lambda: card.use.isVisible() or card.download.retry.isVisible())
        assert card.use.isVisible(), card.download.problem.text()

    watch = await _watched(downloaded())
    found["download"].append(watch.longest_ms)
    found["download, computing"].append(watch.longest_cpu_ms)
    await _close(window)


def _window(sources: PairSources) -> MainWindow:
    def no_pair() -> Pair:
        raise DemoTargetMissing("None is loaded here.")

    window = MainWindow(Engine(), no_pair, lambda: sources)
    window.show()
    return window


async def _opened(window: MainWindow) -> PairPicker:
    window.open_picker()
    picker = window.picker
    assert picker is not None
    await _until(lambda: not picker._model.reading and len(picker._cards) == len(picker._model.shown()))
    await asyncio.sleep(_REST_S)
    return picker


async def _watched(work: Awaitable[object]) -> LoopWatch:
    watch = LoopWatch()
    watching = asyncio.create_task(watch.run())
    await asyncio.sleep(0)
    await work
    watching.cancel()
    return watch


async def _until(reached: Callable[[], bool]) -> None:
    while not reached():
        await asyncio.sleep(_LOOK_S)


async def _close(window: MainWindow) -> None:
    await window.end()
    window.close_now()
    window.deleteLater()
