"""Whether a target and a draft can work together, from configs and headers alone, with a reason for every no.

One implementation with the loader: it reads drafts through the same `parse_draft_config` and compares a loaded target
through the same `number_verdicts`.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.formats.draft_config import DraftConfig
from core.formats.target_config import TargetConfig
from core.pairs.catalog import Catalog, KnownPair
from core.pairs.draft_rules import draft_verdicts
from core.pairs.facts import ModelFacts
from core.pairs.pair_rules import number_verdicts, tokenizer_verdict
from core.pairs.target_rules import target_verdicts
from core.pairs.verdicts import Compatibility, Verdict


def judge(target: ModelFacts, draft: ModelFacts | None, known: KnownPair | None = None) -> Compatibility:
    """Every rule's verdict on the pair; on the target alone where `draft` is None.

    `known` is what the catalog tells of the draft. Raises nothing: what cannot be read is a failed rule.
    """
    target_config, verdicts = target_verdicts(target)
    if draft is None:
        if known is not None:
            text = "The draft's config was not published whole: it is read from the hub before anything is downloaded."
            verdicts.append(Verdict("draft config", "unknown", text))
        return Compatibility(target.name, None, tuple(verdicts))
    draft_config, of_draft = draft_verdicts(draft)
    verdicts += of_draft
    if target_config is not None and draft_config is not None:
        verdicts += _of_both(target_config, draft_config, target, draft)
    if known is not None:
        verdicts += _of_training(target, known)
    return Compatibility(target.name, draft.name, tuple(verdicts))


def fitting_drafts(target: ModelFacts, catalog: Catalog) -> list[tuple[KnownPair, Compatibility]]:
    """The catalog's pairs whose draft has the target's numbers, those made for this target first."""
    fitting = []
    for known in catalog.pairs:
        draft = known.draft_facts()
        if draft is None:
            continue
        compatibility = judge(target, draft, known)
        numbers = {v.rule: v.outcome for v in compatibility.verdicts}
        if (
            numbers.get("hidden size")
            == numbers.get("vocabulary size")
            == numbers.get("number of target layers")
            == "ok"
        ):
            fitting.append((known, compatibility))
    return sorted(fitting, key=lambda found: not found[0].is_target(target.name))


def _of_both(
    target_config: TargetConfig, draft_config: DraftConfig, target: ModelFacts, draft: ModelFacts
) -> Iterator[Verdict]:
    yield from number_verdicts(
        draft_config, target_config.hidden_size, target_config.vocab_size, target_config.num_hidden_layers
    )
    yield tokenizer_verdict(draft.tokenizer, target.tokenizer)


def _of_training(target: ModelFacts, known: KnownPair) -> Iterator[Verdict]:
    """Warnings from what is known of the draft's training."""
    if not known.is_target(target.name):
        text = f"The draft was trained for {known.base}; whether {target.name} is one cannot be seen from its name."
        yield Verdict("made for", "warning", text)
    if known.thinking == "off" and target.tokenizer.can_think is not False:
        text = "The draft was trained on answers without thinking: while the target thinks, it will guess less well."
        yield Verdict("thinking", "warning", text)
