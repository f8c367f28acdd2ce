"""The source that drafts as the controller says, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable

from core.engine.controller import Choice, Controller
from core.engine.session import Session
from core.engine.sources import Proposals, Source
from core.protocol import Mode


class AutoSource(Source):
    """Takes turns between sources, and tells when the controller has changed its mind."""

    def __init__(
        self,
        session: Session,
        block_size: int,
        controller: Controller,
        make: Callable[[Mode], Source],
        changed: Callable[[Mode, str], None],
    ) -> None:
        """`make` makes the source of a mode that drafts; `changed` is told the new mode and the reason."""
        assert session.context is not None
        self.block_size = block_size
        self._context = session.context
        self._controller = controller
        self._make = make
        self._changed = changed
        self._sources: dict[Mode, Source] = {}
        self._now: Source | None = None
        self._begun: tuple[Choice, int, int, float] | None = None
        """The step under way: choice, proposals, position of its anchor, when it began."""

    @property
    def mode(self) -> Mode:  # type: ignore[override]
        """Of the step under way."""
        return self._now.mode if self._now else "plain"

    def start(self, anchor: int, rows: int) -> None:
        """See `Source`."""
        now_s = time.perf_counter()
        if self._begun is not None:
            choice, verified, position, began_s = self._begun
            accepted = self._context.length - position - 1
            self._controller.observe(choice, verified, accepted, (now_s - began_s) * 1e3)
        choice = self._controller.choose(rows + 1)
        if self._controller.reason:
            self._changed(choice.mode, self._controller.reason)
        source = None if choice.mode == "plain" else self._source(choice.mode)
        if self._now is not None and self._now is not source:
            self._now.close()
        self._now = source
        if source is not None:
            source.start(anchor, choice.rows - 1)
        self._begun = choice, choice.rows - 1, self._context.length, now_s

    def collect(self) -> Proposals | None:
        """See `Source`."""
        return self._now.collect() if self._now else None

    def verifying(self) -> None:
        """See `Source`."""
        if self._now is not None:
            self._now.verifying()

    def close(self) -> None:
        """See `Source`."""
        for source in self._sources.values():
            source.close()

    def _source(self, mode: Mode) -> Source:
        if mode not in self._sources:
            self._sources[mode] = self._make(mode)
        return self._sources[mode]
