"""A pair as the picker shows it, and which of them are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.pairs.downloads import PairProgress
from core.errors import Problem
from core.hub.leftovers import Removal
from core.hub.plan import DownloadPlan
from core.pairs.listing import PairRow
from core.pairs.memory import MemorySum

Step = Literal["", "planning", "consent", "load", "measuring", "removal", "removing"]


@dataclass(frozen=True)
class Card:
    """A pair as the picker shows it."""

    row: PairRow
    step: Step = ""
    """What was begun with it: a plan is asked for, agreed to; a load agreed to; a removal measured, agreed to, done."""
    plans: tuple[DownloadPlan, ...] = ()
    """To agree to, in the step `consent`."""
    removals: tuple[Removal, ...] = ()
    """To agree to, in the step `removal`."""
    progress: PairProgress | None = None
    """Of its download."""
    problem: Problem | None = None
    """What went wrong with it last."""
    removable: bool = False
    """Whether deleting it here would free anything."""
    loaded: bool = False
    """Whether the engine holds it."""

    @property
    def memory(self) -> MemorySum | None:
        """At the usual context."""
        return self.row.usual_memory

    @property
    def fits(self) -> bool:
        """Whether it runs, in the memory that is free."""
        return self.row.compatibility.runs and (self.memory is None or self.memory.fits)


@dataclass(frozen=True)
class Filter:
    """What the user wants to see."""

    search: str = ""
    fitting: bool = False
    """Only pairs that run in the memory that is free."""
    downloaded: bool = False
    """Only pairs whose models are on the disk."""

    def passes(self, card: Card) -> bool:
        """Whether the card is shown."""
        row = card.row
        text = " ".join((row.name, row.precision, row.good_at, row.target_repo or "", row.draft_repo or ""))
        wanted = (card.fits or not self.fitting) and (row.state == "ready" or not self.downloaded)
        return wanted and self.has_words(text)

    def has_words(self, text: str) -> bool:
        """Whether the text has every word of the search."""
        return all(word in text.lower() for word in self.search.lower().split())


def rank(card: Card) -> tuple[bool, ...]:
    """Sorts: the loaded pair, the user's own, the recommended one, those on the disk, those that fit, the rest."""
    row = card.row
    return (not card.loaded, " " not in row.id, not row.recommended, row.state != "ready", not card.fits)
