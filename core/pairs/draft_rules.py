"""Whether a draft alone can be run: a DFlash draft, its config sound, its weights what the config announces."""

from __future__ import annotations

from collections.abc import Iterator

from core.errors import MirrorError, UnsupportedModel
from core.formats.draft_config import (
    DFLASH,
    DraftConfig,
    expected_tensors,
    parse_draft_config,
    unsupported_parts,
)
from core.formats.values import shown
from core.pairs.facts import ModelFacts
from core.pairs.verdicts import Verdict, judged

_STORED = {"BF16", "F16", "F32"}


def draft_verdicts(facts: ModelFacts) -> tuple[DraftConfig | None, list[Verdict]]:
    """The draft's config, unless it is none or absurd, and every rule about the draft alone."""
    try:
        config = parse_draft_config(facts.config, facts.name)
    except UnsupportedModel as error:
        return None, [Verdict("draft architecture", "failed", error.problem.sentence)]
    except MirrorError as error:
        return None, [Verdict("draft config", "failed", error.problem.sentence)]
    parts = list(unsupported_parts(config))
    verdicts = [
        Verdict("draft config", "ok", f"{config.num_hidden_layers} layers, block of {config.block_size}."),
        *(Verdict("draft architecture", "failed", f"The draft {facts.name} cannot be run: {part}.") for part in parts),
        *_weights(config, facts),
    ]
    if not parts:
        verdicts.insert(1, Verdict("draft architecture", "ok", f"{config.architecture} can be run."))
    if facts.gated:
        text = f"{facts.name} is gated: its files come after you agreed to its terms on its hub page, with a token."
        verdicts.append(Verdict("gated draft", "warning", text))
    return config, verdicts


def _weights(config: DraftConfig, facts: ModelFacts) -> Iterator[Verdict]:
    if facts.tensors is None:
        yield Verdict("draft weights", "unknown", "The headers of its weight files were not read.")
        return
    if not facts.tensors:
        yield Verdict("draft weights", "failed", f"{facts.name} has no weights (safetensors).")
        return
    types = sorted({tensor.dtype for tensor in facts.tensors.values()})
    readable = set(types) <= _STORED
    how = f"The draft's weights are stored as {', '.join(types)}"
    text = f"{how}." if readable else f"{how}; {', '.join(sorted(_STORED))} can be read."
    yield judged("draft precision", readable, text)
    if config.architecture != DFLASH:
        yield Verdict("draft weights", "unknown", f"The tensors of a {config.architecture} are not checked yet.")
    elif readable:
        problem = _weight_problem(config, facts)
        yield judged("draft weights", not problem, problem or f"{len(facts.tensors)} tensors, as the config says.")


def _weight_problem(config: DraftConfig, facts: ModelFacts) -> str:
    held, expected = facts.tensors or {}, expected_tensors(config)
    for name in expected:
        if name not in held:
            return f"The draft's tensor {name} is missing: {len(held)} tensors are there, {len(expected)} are wanted."
    for name, shape in expected.items():
        if held[name].shape != shape:
            return f"The draft's tensor {name} has the shape {shown(list(held[name].shape))}, wanted is {list(shape)}."
    extra = sorted(held.keys() - expected.keys())
    return f"The draft's tensor {extra[0][:80]} is none that a DFlash draft has." if extra else ""
