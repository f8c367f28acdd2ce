"""Models that a search at the hub found: what each could be in a pair, or why it can be nothing there.

Judged by what the hub lists; configs and headers, which `inspect` reads, may still say no.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from core.formats.draft_config import DFLASH, DFLASH_2
from core.hub.search import HubModel
from core.pairs.catalog import Catalog
from core.pairs.target_rules import architectures

Role = Literal["target", "draft", "none"]


class Candidate(msgspec.Struct, frozen=True):
    """A model at the hub."""

    repo: str
    role: Role
    sentence: str
    """What it could be; for the role `none`, and for a target without a known draft, why it makes no pair."""
    partner: str = ""
    """The hub id of the model that it makes a known pair with."""
    gated: bool = False


def candidate(model: HubModel, catalog: Catalog) -> Candidate:
    """Judge one model by its listing. Looks at the installed mlx-lm's files the first time."""
    role, sentence, partner = _judged(model, catalog)
    return Candidate(model.repo, role, sentence, partner, model.gated)


def _judged(model: HubModel, catalog: Catalog) -> tuple[Role, str, str]:
    if {DFLASH, DFLASH_2} & {*model.architectures}:
        pair = catalog.of_draft(model.repo)
        base = f"made for {pair.base}" if pair else "for which target shows its config"
        return "draft", f"A DFlash draft, {base}.", pair.targets[0].repo if pair else ""
    if model.has_safetensors is False:
        return "none", "It has no weights in safetensors files, which models for MLX have.", ""
    if model.model_type and model.model_type not in architectures():
        return "none", f"Its architecture is {model.model_type[:60]}, which the installed mlx-lm has no class for.", ""
    made_for_it = next((pair for pair in catalog.pairs if pair.is_target(model.repo)), None)
    if made_for_it is None:
        return "target", "No known draft was made for it: it makes a pair with one that you name.", ""
    if made_for_it.draft.repo is None:
        return "target", "The draft that ships with Mirror SD was made for it.", ""
    return "target", f"A draft was made for it: {made_for_it.draft.repo}.", made_for_it.draft.repo
