"""Finds a model that the user named, wherever it is: a path, an id of the catalog, a hub id."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from core.errors import (
    ConnectionLost,
    HubBusy,
    HubFault,
    HubOffline,
    HubUnreachable,
    NotOnThisMachine,
    TransferStalled,
)
from core.pairs.catalog import Catalog, KnownPair
from core.pairs.demo import demo_draft, packaged_target
from core.pairs.facts import FactsReader, ModelFacts, read_facts
from core.pairs.found import FoundModel

DEMO = "demo"
_FROM_CATALOG = "the catalog (nothing is on disk yet)"
_AWAY = (HubOffline, HubUnreachable, HubFault, HubBusy, ConnectionLost, TransferStalled)


class Located(msgspec.Struct, frozen=True):
    """A model, by whatever name, and where its facts came from."""

    facts: ModelFacts
    source: str
    """A path, or words."""
    stored_bytes: int
    """Its weights; 0 where nobody knows."""


def locate(name: str, catalog: Catalog, found: Iterable[FoundModel], remote: FactsReader | None = None) -> Located:
    """A target by path, id or hub id: from disk where it is there, else from the hub, else what the catalog tells.

    What the catalog tells stands also where the hub does not answer.

    Raises `NotOnThisMachine`, and as `read_facts` and `remote` do.
    """
    known = catalog.find(name)
    if name == DEMO and (packaged := packaged_target()):
        return _on_disk(Path(packaged))
    if os.path.exists(name):  # Path.exists raises for names that no file system takes
        return _on_disk(Path(name))
    repo = known[1].repo if known else name
    file = known[1].file if known else None
    wanted = repo if file is None else f"{repo}/{file}"
    place = next((model for model in found if model.name == wanted), None)
    if place is not None:
        return _on_disk(Path(place.path), repo)
    if remote is not None and "/" in repo and file is None:
        try:
            facts = remote(repo, known[1].revision if known else "main")
            return Located(facts, "the hub", facts.weight_bytes or 0)
        except _AWAY:
            if known is None:
                raise
    if known is not None:
        return Located(known[0].target_facts(known[1]), _FROM_CATALOG, known[1].weight_bytes)
    raise _missing(name)


def locate_draft(name: str, catalog: Catalog, found: Iterable[FoundModel], remote: FactsReader | None) -> Located:
    """A draft by path, hub id, or the id of its pair. Raises `NotOnThisMachine`, and as `read_facts` does."""
    if name == DEMO:
        return _on_disk(Path(demo_draft()))
    pair = next((p for p in catalog.pairs if name in (p.id, p.draft.repo)), None)
    repo = (pair.draft.repo or name) if pair else name
    try:
        return locate(repo, catalog, found, remote)
    except (NotOnThisMachine, *_AWAY):
        facts = pair.draft_facts() if pair else None
        if pair is None or facts is None:
            raise
        return Located(facts, _FROM_CATALOG, pair.draft.weight_bytes)


def _missing(name: str) -> NotOnThisMachine:
    return NotOnThisMachine(
        f"{name[:80]} is neither a path, nor in the catalog, nor in a folder that is searched.",
        "`mirror-sd pairs` shows the catalog; a model folder or GGUF file can be named by its path.",
    )


def _on_disk(path: Path, name: str | None = None) -> Located:
    facts = read_facts(path, name)
    return Located(facts, str(path), facts.weight_bytes or 0)


def known_pair(name: str, draft: ModelFacts, catalog: Catalog) -> KnownPair | None:
    """What the catalog tells of a draft, by its hub id, the end of its folder's name, or the pair's id."""
    by_id = next((pair for pair in catalog.pairs if pair.id == name), None)
    return by_id or catalog.of_draft(draft.name)
