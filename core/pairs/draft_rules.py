"""Whether a draft alone can be run: a DFlash draft, its config sound, its weights what the config announces."""

from __future__ import annotations

from collections.abc import Iterator

from core.errors import MirrorError, UnsupportedModel
from core.formats.draft_config import DraftConfig, parse_draft_config, unsupported_parts
from core.formats.draft_tensors import PACKED, STORED, tensor_problem
from core.pairs.facts import ModelFacts
from core.pairs.verdicts import Verdict, judged

_READABLE = {*STORED, PACKED}


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
    readable = set(types) <= _READABLE
    how = f"The draft's weights are stored as {', '.join(types)}"
    text = f"{how}." if readable else f"{how}; {', '.join(sorted(_READABLE))} can be read."
    yield judged("draft precision", readable, text)
    if readable:
        problem = tensor_problem(config, facts.tensors)
        yield judged("draft weights", not problem, problem or f"{len(facts.tensors)} tensors, as the config says.")
