"""A pair of the user's own, made into a row like those of the catalog."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.language import tr
from core.hub.settings import HubSettings
from core.pairs import demo_draft, demo_pair
from core.pairs.catalog import Catalog
from core.pairs.found import FoundModel, complete
from core.pairs.hub_facts import HubFacts
from core.pairs.inspection import Inspection, inspect
from core.pairs.listing import PairRow, State
from core.pairs.locate import DEMO
from core.pairs.memory import NO_LIMITS, MemoryLimits


@dataclass(frozen=True)
class CustomPair:
    """What the user named, and what was found out about it."""

    target: str
    draft: str | None
    """None for a target alone."""
    inspection: Inspection

    @property
    def id(self) -> str:
        """Tells it from the catalog's rows, whose ids have no space."""
        return f"{self.target} + {self.draft or 'no draft'}"


def inspect_custom(
    target: str,
    draft: str,
    catalog: Catalog,
    found: Iterable[FoundModel],
    hub: HubSettings,
    limits: MemoryLimits = NO_LIMITS,
) -> CustomPair:
    """Judge two models, each by path or hub id; the target alone where `draft` is empty.

    Reads the disk and asks the hub: not for the event loop. Raises as `inspect` does.
    """
    target, draft = _full_name(target, catalog), draft and _full_name(draft, catalog)
    draft = demo_draft() if draft == DEMO else draft
    target = demo_pair().target if target == DEMO else target
    judged = inspect(target, draft or None, catalog, found, limits=limits, remote=HubFacts(hub))
    return CustomPair(target, draft or None, judged)


def _full_name(name: str, catalog: Catalog) -> str:
    """A path, or the hub id that a short name stands for."""
    known = None if name == DEMO else catalog.find(name)
    return known[1].repo if known else os.path.expanduser(name)


def custom_row(pair: CustomPair, found: Iterable[FoundModel]) -> PairRow:
    """The row, with what is on disk now."""
    places = {model.name: model.path for model in reversed(list(found))}
    target_path, draft_path = _place(pair.target, places), _place(pair.draft, places) if pair.draft else None
    inspection = pair.inspection
    facts = {fact.what: fact.value for fact in inspection.target}
    return PairRow(
        id=pair.id,
        name=f"{_short(pair.target)} + {_short(pair.draft) if pair.draft else 'no draft'}",
        precision=facts.get("precision", ""),
        good_at=tr("Your own choice."),
        target_repo=None if os.path.exists(pair.target) else pair.target,
        target_revision="main",
        target_file=None,
        target_sha256=None,
        draft_repo=None if pair.draft is None or os.path.exists(pair.draft) else pair.draft,
        draft_revision="main",
        download_bytes=0,
        state=_state(target_path, draft_path if pair.draft else target_path),
        target_path=target_path,
        draft_path=draft_path,
        compatibility=inspection.compatibility,
        memory=() if inspection.memory is None else (inspection.memory,),
        preparation=inspection.preparation,
        problem="",
        recommended=False,
        with_draft=pair.draft is not None,
    )


def _place(name: str, places: dict[str, str]) -> str | None:
    if not os.path.exists(name):  # Path.exists raises for names that no file system takes
        return places.get(name)
    path = Path(name)
    return str(path.resolve()) if path.is_file() or complete(path) else None


def _short(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2]


def _state(target: str | None, draft: str | None) -> State:
    if target:
        return "ready" if draft else "draft missing"
    return "target missing" if draft else "not downloaded"
