"""Several downloads, one after the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

from core.errors import MirrorError
from core.hub.download import Download
from core.hub.plan import DownloadRequest
from core.hub.progress import ENDED
from core.hub.retry import Patience
from core.hub.settings import HubSettings


class DownloadQueue:
    """Runs downloads in the order they were added; one that is paused lets the next one go ahead."""

    def __init__(self, settings: HubSettings, patience: Patience | None = None) -> None:
        self._settings = settings
        self._patience = patience
        self._slot = asyncio.Semaphore(1)
        self._running: dict[asyncio.Task[Path | None], Download] = {}

    def add(self, request: DownloadRequest) -> Download:
        """Line a model up; one that is lined up already is not added twice."""
        for download in self._running.values():
            if download.request == request and download.progress.state not in ENDED:
                return download
        download = Download(self._settings, request, self._patience, self._slot)
        self.start(download)
        return download

    def start(self, download: Download) -> None:
        """Run a download, also one that has failed or was cancelled, at the end of the line."""
        download.line_up()
        task = asyncio.create_task(self._run(download))
        self._running[task] = download
        task.add_done_callback(self._running.pop)

    async def _run(self, download: Download) -> Path | None:
        try:
            return await download.run()
        except MirrorError:  # the download's progress tells it
            return None

    async def close(self) -> None:
        """Stop all transfers; what has arrived is kept."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
