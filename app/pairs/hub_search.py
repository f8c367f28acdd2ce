"""The search at the hub: a moment after the last key, off the event loop, the newest text alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QObject, QTimer, Signal

from app.language import tr
from app.tasks import Tasks
from core.errors import InternalError, MirrorError, Problem
from core.hub.search import search_models
from core.hub.settings import HubSettings
from core.pairs.candidates import Candidate, candidate
from core.pairs.catalog import Catalog

_PAUSE_MS = 400
_LEAST_LETTERS = 3


@dataclass(frozen=True)
class HubResults:
    """What is known of a search."""

    text: str = ""
    state: Literal["", "searching", "found", "failed"] = ""
    candidates: tuple[Candidate, ...] = ()
    problem: Problem | None = None


class HubSearch(QObject):
    """Searches for what was typed last."""

    changed = Signal()

    def __init__(self, hub: Callable[[], HubSettings], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hub = hub
        self._tasks = Tasks()
        self._task: asyncio.Task[None] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_PAUSE_MS)
        self._timer.timeout.connect(self._begin)
        self._text = ""
        self._catalog: Catalog | None = None
        self.results = HubResults()

    def search(self, text: str, catalog: Catalog) -> None:
        """Search for `text` soon; one that is too short finds nothing. The same text is not searched for twice."""
        text = " ".join(text.split())
        if text == self._text:
            return
        self._text, self._catalog = text, catalog
        if self._task is not None:
            self._task.cancel()
        self._timer.stop()
        if len(text) < _LEAST_LETTERS:
            self._put(HubResults())
        else:
            self._put(HubResults(text, "searching"))
            self._timer.start()

    def forget(self) -> None:
        """Search anew for the next text, whatever it is: other settings hold."""
        self._text = ""

    async def close(self) -> None:
        """End what is under way."""
        self._timer.stop()
        await self._tasks.cancel_all()

    def _begin(self) -> None:
        self._task = self._tasks.start(self._search(self._text))

    async def _search(self, text: str) -> None:
        catalog = self._catalog
        assert catalog is not None
        try:
            models = await search_models(self._hub(), text)
            candidates = await asyncio.to_thread(lambda: tuple(candidate(model, catalog) for model in models))
        except MirrorError as error:
            self._put(HubResults(text, "failed", problem=error.problem))
        except Exception as error:
            sentence = tr("The search met a defect of this program.")
            problem = InternalError(sentence, tr("Try again."), repr(error)).problem
            self._put(HubResults(text, "failed", problem=problem))
            raise
        else:
            self._put(HubResults(text, "found", candidates))

    def _put(self, results: HubResults) -> None:
        self.results = results
        self.changed.emit()
