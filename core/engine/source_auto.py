"""The source that drafts as the controller says, step by step."""

from __future__ import annotations

from collections.abc import Callable

from core.engine.controller import Choice, Controller, StepSeen
from core.engine.session import Session
from core.engine.source_lookup import LookupSource
from core.engine.sources import Proposals, Settled, Source
from core.protocol import Mode

_PLAIN = Choice("plain", 1)


class AutoSource(Source):
    """Takes turns between sources, and tells when the controller has changed its mind.

    Prompt lookup is asked at every step, whoever drafts: what it would have said is held against what came, so that it
    is known when to believe it without a trial.
    """

    def __init__(
        self,
        session: Session,
        block_size: int,
        controller: Controller,
        make: Callable[[Mode], Source],
        changed: Callable[[Mode, str], None],
    ) -> None:
        """`make` makes the source of a mode that drafts; `changed` is told the new mode and the reason."""
        self.block_size = block_size
        self._session = session
        self._controller = controller
        self._make = make
        self._changed = changed
        self._lookup = LookupSource(session, block_size)
        self._sources: dict[Mode, Source] = {"lookup": self._lookup}
        self._now: Source | None = None
        self._under_way = _PLAIN
        self._next: Choice | None = None
        controller.begin_answer()

    @property
    def mode(self) -> Mode:  # type: ignore[override]
        """Of the step under way."""
        return self._now.mode if self._now else "plain"

    def needs_no_outcome(self) -> bool:
        """See `Source`: after a plain step the choice hangs on what it came to only where that may be a repeat."""
        if self._under_way.mode == "plain":
            self._next = None if self._may_look_up() else self._choose(self.block_size, 0)
        return self._next is not None and self._next.mode == "plain"

    def settled(self, step: Settled) -> None:
        """See `Source`."""
        if (repeat := self._lookup.repeat) is not None:
            came = list(zip(repeat.tokens, step.tokens, strict=False))
            right = next((index for index, (said, token) in enumerate(came) if said != token), len(came))
            self._controller.observe_repeat(repeat.length, right, len(came))
        self._lookup.settled(step)
        rows = step.proposed + 1
        mode = self.mode if step.proposed else "plain"
        self._controller.observe(StepSeen(mode, rows, step.accepted, step.took_ms, self._session.length, step.branch))
        self._under_way = _PLAIN

    def start(self, anchor: int, rows: int) -> None:
        """See `Source`."""
        repeat = self._lookup.repeat
        choice, self._next = self._next or self._choose(rows + 1, repeat.length if repeat else 0), None
        self._under_way = choice
        source = None if choice.mode == "plain" else self._source(choice.mode)
        if self._now is not None and self._now is not source:
            self._now.close()
        self._now = source
        if source is not None:
            source.start(anchor, min(choice.rows - 1, rows))
            if source.mode != choice.mode:
                self._controller.lose(choice.mode)  # it has failed, and another stands in for it

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

    def _may_look_up(self) -> bool:
        """Whether the outcome of the pass under way may be a repeat that is worth a look-up."""
        if self._lookup.needs_no_outcome():
            return False
        return self._controller.expects_repeats(self.block_size, self._session.length)

    def _choose(self, most_rows: int, repeat: int) -> Choice:
        choice = self._controller.choose(most_rows, self._session.length, repeat)
        if self._controller.reason:
            self._changed(self._controller.mode, self._controller.reason)
        return choice

    def _source(self, mode: Mode) -> Source:
        if mode not in self._sources:
            self._sources[mode] = self._make(mode)
        return self._sources[mode]
