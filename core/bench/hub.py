"""Our download against the plain client of the hub: the same files from the same server into fresh caches, in turns."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import snapshot_download

from core.bench.rows import Row, row, single
from core.hub.download import Download
from core.hub.plan import DownloadRequest
from core.hub.settings import HubSettings

_WATCH_S = 0.001


class LoopWatch:
    """Measures for how long an event loop does not come round, while something runs in it."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        """On the clock: other threads and programs have a part in it."""
        self.longest_cpu_ms = 0.0
        """Of the loop's own thread: what it computed between two rounds."""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            began_s, cpu_s = time.perf_counter(), time.thread_time()
            await asyncio.sleep(_WATCH_S)
            self.longest_ms = max(self.longest_ms, (time.perf_counter() - began_s - _WATCH_S) * 1e3)
            self.longest_cpu_ms = max(self.longest_cpu_ms, (time.thread_time() - cpu_s) * 1e3)


def plain_s(endpoint: str, repo: str, cache: Path) -> float:
    """Seconds that the plain client takes into a fresh cache. It does not verify what it gets."""
    began_s = time.perf_counter()
    snapshot_download(repo, cache_dir=cache, endpoint=endpoint, token=False)
    return time.perf_counter() - began_s


def ours_s(endpoint: str, repo: str, cache: Path, watch: LoopWatch | None = None) -> float:
    """Seconds that our download takes into a fresh cache. A `watch` looks at its event loop, and takes time itself."""

    async def download() -> float:
        began_s = time.perf_counter()
        watching = asyncio.create_task(watch.run()) if watch else None
        await Download(HubSettings(endpoint, cache=str(cache)), DownloadRequest(repo)).run()
        if watching is not None:
            watching.cancel()
        return time.perf_counter() - began_s

    return asyncio.run(download())


def idle_ms(seconds: float) -> float:
    """The longest block of an event loop with nothing to do: the share of it that is the machine's."""
    watch = LoopWatch()

    async def rest() -> None:
        watching = asyncio.create_task(watch.run())
        await asyncio.sleep(seconds)
        watching.cancel()

    asyncio.run(rest())
    return watch.longest_ms


def hub_rows(endpoint: str, repo: str, folder: Path, runs: int, progress: Callable[[str], object]) -> list[Row]:
    """Both downloads in turns, after one of each that does not count; our event loop is watched in a download more.

    `folder` holds the caches meanwhile.
    """
    plain, ours, blocks, cpu, idle, hashing = [], [], [], [], [], []
    for run in range(runs + 1):
        progress(f"run {run} of {runs}")
        cache = folder / "plain"
        plain.append(plain_s(endpoint, repo, cache))
        shutil.rmtree(cache)
        cache = folder / "ours"
        ours.append(ours_s(endpoint, repo, cache))
        hashing.append(_hash_s(cache))
        size = sum(path.stat().st_size for path in cache.glob("models--*/blobs/*"))
        shutil.rmtree(cache)
        watch = LoopWatch()
        ours_s(endpoint, repo, cache, watch)
        blocks.append(watch.longest_ms)
        cpu.append(watch.longest_cpu_ms)
        shutil.rmtree(cache)
        idle.append(idle_ms(ours[-1]))
    return [
        single("bytes of the model", size / 1e6, "MB"),
        row("plain client", "s", plain[1:]),
        row("ours, verified", "s", ours[1:], plain[1:], "plain client"),
        row("sha256 of the files alone", "s", hashing[1:]),
        row("longest block of the event loop", "ms", blocks[1:]),
        row("longest block of the event loop, own computing", "ms", cpu[1:]),
        row("longest block of an idle event loop", "ms", idle[1:]),
    ]


def _hash_s(cache: Path) -> float:
    began_s = time.perf_counter()
    for path in cache.glob("models--*/blobs/*"):
        with path.open("rb") as file:
            hashlib.file_digest(file, "sha256")
    return time.perf_counter() - began_s
