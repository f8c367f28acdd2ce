"""The known pairs as a user chooses among them: what is on disk, what fits this machine, what cannot be run and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from core.errors import MirrorError
from core.formats.draft_config import DraftConfig, parse_draft_config
from core.formats.target_config import parse_target_config
from core.pairs.catalog import Catalog, KnownPair, KnownTarget
from core.pairs.compatibility import judge
from core.pairs.demo import DEMO_FILE, demo_draft, packaged_target
from core.pairs.facts import ModelFacts, read_facts
from core.pairs.found import FoundModel
from core.pairs.memory import CONTEXTS, DEFAULT_CONTEXT, NO_LIMITS, Device, MemoryLimits, MemorySum, pair_memory
from core.pairs.pair import Pair
from core.pairs.preparation import Preparation, estimate
from core.pairs.verdicts import Compatibility

State = Literal["ready", "draft missing", "target missing", "not downloaded"]
_GIB = 2**30
_REPORTED = 0.95  # systems report a little less memory than is built in
_SHARE = 0.8  # of it, that a recommended pair may need: the rest is for the system and other programs


class PairRow(msgspec.Struct, frozen=True):
    """One target with its draft, or alone."""

    id: str
    name: str
    precision: str
    good_at: str
    target_repo: str | None
    target_revision: str
    target_file: str | None
    """The one file that it is; None for a folder of files."""
    target_sha256: str | None
    draft_repo: str | None
    draft_revision: str
    download_bytes: int
    """Of both, where nothing is on disk yet; from shapes where no size was published. The hub knows better."""
    state: State
    target_path: str | None
    draft_path: str | None
    compatibility: Compatibility
    memory: tuple[MemorySum, ...]
    """One for each of `memory.CONTEXTS`, or for less where the settings allow no more."""
    preparation: Preparation | None
    """None where the draft's config is not known."""
    problem: str
    """What is wrong with a model on disk, which counts as missing then."""
    recommended: bool
    """The one for a machine with this much memory."""
    with_draft: bool = True
    """False for a target alone."""

    @property
    def usual_memory(self) -> MemorySum | None:
        """At the usual context; None where nothing is known."""
        usual = CONTEXTS.index(DEFAULT_CONTEXT)
        return self.memory[min(usual, len(self.memory) - 1)] if self.memory else None

    @property
    def pair(self) -> Pair | None:
        """What the engine loads; None while something is missing."""
        if self.target_path is None or (self.with_draft and self.draft_path is None):
            return None
        return Pair(f"{self.name} {self.precision}", self.target_path, self.draft_path)


def list_pairs(
    catalog: Catalog,
    found: Iterable[FoundModel],
    *,
    device: Device | None = None,
    held_bytes: int = 0,
    limits: MemoryLimits = NO_LIMITS,
) -> list[PairRow]:
    """Every target of the catalog, in its order. `device`, `held_bytes` and `limits`: see `pair_memory`.

    Reads headers and tokenizers of what is on disk, which takes some tenths of a second a model.
    """
    places = {model.name: model.path for model in reversed(list(found))}
    need = partial(pair_memory, device=device, held_bytes=held_bytes, limits=limits)
    rows = [_row(pair, target, places, need) for pair in catalog.pairs for target in pair.targets]
    best = recommended(catalog, rows)
    return [msgspec.structs.replace(row, recommended=row.id == best) for row in rows]


def recommended(catalog: Catalog, rows: Iterable[PairRow]) -> str | None:
    """The id of the first recommendation, best first, that can be run on a machine with this much memory."""
    by_id = {row.id: row for row in rows}
    for wish in catalog.recommended:
        row = by_id[wish.target]
        memory = row.memory[CONTEXTS.index(DEFAULT_CONTEXT)]
        large = memory.total_bytes >= wish.memory_gb * _GIB * _REPORTED
        needed = memory.needed_bytes - memory.optional_bytes
        if row.compatibility.runs and large and needed <= memory.total_bytes * _SHARE:
            return row.id
    return None


def _row(pair: KnownPair, target: KnownTarget, places: dict[str, str], need: Callable[..., MemorySum]) -> PairRow:
    target_path, draft_path = _paths(pair, target, places)
    known = pair.target_facts(target)
    target_facts, target_problem = _read(target_path, known.name, draft=False)
    draft_facts, draft_problem = _read(draft_path, pair.draft.repo, draft=True)
    judged_target, judged_draft = target_facts or known, draft_facts or pair.draft_facts()
    draft = None if judged_draft is None else parse_draft_config(judged_draft.config, judged_draft.name)
    return PairRow(
        id=target.id,
        name=pair.name,
        precision=target.precision,
        good_at=pair.good_at,
        target_repo=target.repo,
        target_revision=target.revision,
        target_file=target.file,
        target_sha256=target.sha256,
        draft_repo=pair.draft.repo,
        draft_revision=pair.draft.revision,
        download_bytes=(target.download_bytes or target.weight_bytes)
        + (pair.draft.weight_bytes if pair.draft.repo else 0),
        state=_state(target_facts is not None, draft_facts is not None),
        target_path=target_path if target_facts else None,
        draft_path=draft_path if draft_facts else None,
        compatibility=judge(judged_target, judged_draft, pair),
        memory=_memory(pair, target, judged_target, draft, need),
        preparation=None if draft is None else estimate(draft, path=draft_path),
        problem=target_problem or draft_problem,
        recommended=False,
    )


def _memory(
    pair: KnownPair,
    target: KnownTarget,
    facts: ModelFacts,
    draft: DraftConfig | None,
    need: Callable[..., MemorySum],
) -> tuple[MemorySum, ...]:
    of_pair = partial(
        need,
        parse_target_config(facts.config, target.id),
        draft,
        tensors=facts.tensors,
        stored_bytes=target.weight_bytes,
        draft_bytes=pair.draft.weight_bytes,
    )
    return tuple(of_pair(context=context) for context in CONTEXTS)


def _paths(pair: KnownPair, target: KnownTarget, places: dict[str, str]) -> tuple[str | None, str | None]:
    draft = demo_draft() if pair.draft.repo is None else places.get(pair.draft.repo)
    if target.file is None:
        return places.get(target.repo), draft
    packaged = packaged_target() if target.file == DEMO_FILE else None
    return packaged or places.get(f"{target.repo}/{target.file}"), draft


def _read(path: str | None, name: str | None, *, draft: bool) -> tuple[ModelFacts | None, str]:
    """The facts of a model on disk whose config is sound, and what is wrong with it otherwise."""
    if path is None:
        return None, ""
    try:
        facts = read_facts(Path(path), name)
        (parse_draft_config if draft else parse_target_config)(facts.config, facts.name)
    except MirrorError as error:
        return None, error.problem.sentence
    return facts, ""


def _state(target: bool, draft: bool) -> State:
    if target:
        return "ready" if draft else "draft missing"
    return "target missing" if draft else "not downloaded"
