"""Everything that can be said of a target, and of a draft for it, before either is loaded or downloaded."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from core.errors import MirrorError
from core.formats.draft_config import DraftConfig, parse_draft_config
from core.formats.target_config import TargetConfig, parse_target_config
from core.pairs.catalog import Catalog
from core.pairs.compatibility import fitting_drafts, judge
from core.pairs.facts import FactsReader, ModelFacts
from core.pairs.found import FoundModel
from core.pairs.locate import Located, known_pair, locate, locate_draft
from core.pairs.memory import DEFAULT_CONTEXT, NO_LIMITS, MemoryLimits, MemorySum, pair_memory
from core.pairs.preparation import Preparation, estimate
from core.pairs.verdicts import Compatibility


class Fact(msgspec.Struct, frozen=True):
    """One line about a model."""

    what: str
    value: str


class Fitting(msgspec.Struct, frozen=True):
    """A known draft whose numbers are those of the target."""

    draft: str
    """Its hub id, or `demo-draft`."""
    made_for: bool
    """Whether the target's name says that it is the one that the draft was trained for."""
    runs: bool


class Inspection(msgspec.Struct, frozen=True):
    """The answer to `inspect`."""

    target: tuple[Fact, ...]
    draft: tuple[Fact, ...]
    """Empty where no draft was named."""
    compatibility: Compatibility
    memory: MemorySum | None
    """None where a config is too absurd for a sum."""
    preparation: Preparation | None
    fitting: tuple[Fitting, ...]
    """Known drafts for a target that was named alone."""


def inspect(
    target: str,
    draft: str | None,
    catalog: Catalog,
    found: Iterable[FoundModel],
    *,
    context: int = DEFAULT_CONTEXT,
    limits: MemoryLimits = NO_LIMITS,
    remote: FactsReader | None = None,
) -> Inspection:
    """Inspect a target, and a draft for it. Each is a path, an id of the catalog, or a hub id.

    Raises `NotOnThisMachine`, and as `read_facts` does for files that cannot be read at all. Whatever a config says
    becomes a verdict.
    """
    models = list(found)
    first = locate(target, catalog, models, remote)
    second = None if draft is None else locate_draft(draft, catalog, models, remote)
    known = None if draft is None or second is None else known_pair(draft, second.facts, catalog)
    compatibility = judge(first.facts, second.facts if second else None, known)
    config = _config(first.facts)
    draft_config = _draft_config(second.facts) if second else None
    fitting = fitting_drafts(first.facts, catalog) if second is None else []
    return Inspection(
        target=_target_facts(first, config),
        draft=_draft_facts(second, draft_config) if second else (),
        compatibility=compatibility,
        memory=_memory(first, second, config, draft_config, context, limits),
        preparation=estimate(draft_config, path=second.source) if second and draft_config else None,
        fitting=tuple(
            Fitting(pair.draft.repo or "demo-draft", pair.is_target(first.facts.name), judged.runs)
            for pair, judged in fitting
        ),
    )


def _config(facts: ModelFacts) -> TargetConfig | None:
    try:
        return parse_target_config(facts.config, facts.name)
    except MirrorError:
        return None  # a verdict says why


def _draft_config(facts: ModelFacts) -> DraftConfig | None:
    try:
        return parse_draft_config(facts.config, facts.name)
    except MirrorError:
        return None  # a verdict says why


def _memory(
    target: Located,
    draft: Located | None,
    config: TargetConfig | None,
    draft_config: DraftConfig | None,
    context: int,
    limits: MemoryLimits,
) -> MemorySum | None:
    if config is None or not target.stored_bytes or (draft is not None and draft_config is None):
        return None
    return pair_memory(
        config,
        draft_config,
        tensors=target.facts.tensors,
        stored_bytes=target.stored_bytes,
        draft_bytes=draft.stored_bytes if draft else 0,
        context=context,
        limits=limits,
    )


def _target_facts(target: Located, config: TargetConfig | None) -> tuple[Fact, ...]:
    facts = [Fact("target", target.facts.name), Fact("from", target.source)]
    if config is None:
        return tuple(facts)
    kinds = config.layer_kinds or ()
    layers = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)) or "kind not known"
    stored = "as the GGUF file has it" if target.facts.gguf else "16 bits or more"
    tokens = target.facts.tokenizer.tokens
    return (
        *facts,
        Fact("architecture", config.model_type),
        Fact("layers", f"{config.num_hidden_layers} ({layers})"),
        Fact("hidden size", str(config.hidden_size)),
        Fact("vocabulary", f"{config.vocab_size}" + (f", tokenizer knows {tokens}" if tokens else "")),
        Fact("context", f"{config.max_position_embeddings:,}" if config.max_position_embeddings else "not said"),
        Fact("precision", config.quantization.words if config.quantization else stored),
    )


def _draft_facts(draft: Located, config: DraftConfig | None) -> tuple[Fact, ...]:
    facts = (Fact("draft", draft.facts.name), Fact("from", draft.source))
    if config is None:
        return facts
    sliding = config.layer_types.count("sliding_attention")
    return (
        *facts,
        Fact("architecture", config.architecture),
        Fact("layers", f"{config.num_hidden_layers}" + (f" ({sliding} sliding)" if sliding else "")),
        Fact("block", str(config.block_size)),
        Fact("taps", ", ".join(map(str, config.target_layer_ids))),
        Fact("mask token", str(config.mask_token_id)),
    )
