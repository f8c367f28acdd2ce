"""Whether a target alone can be run: is its config sound, its architecture known, can its caches be rolled back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from core.errors import MirrorError
from core.formats.gguf_types import QUANTISED_BITS
from core.formats.safetensors_header import TensorFacts
from core.formats.target_config import TargetConfig, parse_target_config
from core.pairs.facts import ModelFacts
from core.pairs.verdicts import Verdict, judged

RENAMED = {
    "mistral": "llama",
    "llava": "mistral3",
    "phi-msft": "phixtral",
    "falcon_mamba": "mamba",
    "joyai_llm_flash": "deepseek_v3",
    "kimi_k2": "deepseek_v3",
    "qwen2_5_vl": "qwen2_vl",
    "minimax_m2": "minimax",
    "iquestcoder": "llama",
    "xverse": "llama",
    "gemma4_unified": "gemma4",
    "deepseek_v41_text": "deepseek_v41",
}
"""Architectures that mlx-lm runs with another one's class (mlx_lm.utils.MODEL_REMAPPING)."""
_NO_ARCHITECTURES = {"base", "cache", "pipeline", "activations", "rope_utils", "switch_layers", "__init__"}
_STORED = {"F64", "F32", "F16", "BF16", "U32", "U8", *QUANTISED_BITS}
_LAYER = re.compile(r"(?:^|\.)(?:layers|blk)\.(\d+)\.")
_NOT_TEXT = re.compile(r"(?:^|\.)(?:vision\w*|visual|audio\w*|multi_modal\w*|mtp)\.")


def target_verdicts(facts: ModelFacts) -> tuple[TargetConfig | None, list[Verdict]]:
    """The target's config, unless it is absurd, and every rule about the target alone."""
    try:
        config = parse_target_config(facts.config, facts.name)
    except MirrorError as error:
        return None, [Verdict("target config", "failed", error.problem.sentence)]
    verdicts = [
        Verdict("target config", "ok", f"{config.num_hidden_layers} layers of {config.hidden_size} channels."),
        _architecture(config),
        _caches(config),
        _quantisation(config, facts),
        *_weights(config, facts),
    ]
    if config.custom_code is not None:
        text = f"The target wants to bring its own program along ({config.custom_code}), which is never run."
        verdicts.append(Verdict("custom code", "failed", text))
    if facts.gated:
        text = f"{facts.name} is gated: its files come after you agreed to its terms on its hub page, with a token."
        verdicts.append(Verdict("gated target", "warning", text))
    return config, verdicts


def text_tensors(tensors: Mapping[str, TensorFacts]) -> dict[str, TensorFacts]:
    """Without the parts for images, sound and multi-token prediction, which are not loaded."""
    return {name: tensor for name, tensor in tensors.items() if not _NOT_TEXT.search(name)}


@cache
def architectures() -> frozenset[str]:
    """The model types that the installed mlx-lm has a class for, from its files: nothing of it is imported."""
    spec = find_spec("mlx_lm")
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    names = {path.stem for folder in folders for path in (Path(folder) / "models").glob("*.py")}
    return frozenset(names - _NO_ARCHITECTURES | RENAMED.keys())


def _architecture(config: TargetConfig) -> Verdict:
    known = config.model_type in architectures()
    text = f"mlx-lm has a class for the architecture {config.model_type}."
    refusal = f"The target's architecture is {config.model_type[:60]}, which the installed mlx-lm has no class for."
    return judged("architecture", known, text if known else refusal)


def _caches(config: TargetConfig) -> Verdict:
    """All kinds of layers that configs are understood to announce can be rolled back: a test holds it."""
    if config.layer_kinds is None:
        text = f"What the layers of {config.model_type[:60]} keep of the text shows when it is loaded."
        return Verdict("roll-back", "unknown", text)
    return Verdict("roll-back", "ok", "Every layer can forget rejected tokens.")


def _quantisation(config: TargetConfig, facts: ModelFacts) -> Verdict:
    if facts.gguf:
        types = Counter(tensor.dtype for tensor in (facts.tensors or {}).values())
        return Verdict("quantisation", "ok", f"Weights of types {', '.join(sorted(types))}.")
    if config.quantization is None:
        return Verdict("quantisation", "ok", "The weights are not quantised.")
    words = config.quantization.words
    return judged(
        "quantisation",
        config.quantization.known,
        f"The weights have {words}."
        if config.quantization.known
        else f"The quantisation {words} is not known: whether the target loads shows when it is tried.",
        otherwise="warning",
    )


def _weights(config: TargetConfig, facts: ModelFacts) -> Iterator[Verdict]:
    if facts.tensors is None:
        yield Verdict("target weights", "unknown", "The headers of its weight files were not read.")
        return
    tensors = text_tensors(facts.tensors)
    if not tensors:
        yield Verdict("target weights", "failed", f"{facts.name} has no weights (safetensors).")
        return
    problem = _weight_problem(config, tensors)
    yield judged("target weights", not problem, problem or f"{len(tensors)} tensors, as the config says.")
    strange = sorted({tensor.dtype for tensor in tensors.values()} - _STORED)
    if strange:
        text = f"Some weights are stored as {', '.join(strange)}: whether the target loads shows when it is tried."
        yield Verdict("precision", "warning", text)


def _weight_problem(config: TargetConfig, tensors: Mapping[str, TensorFacts]) -> str:
    layers = {int(found[1]) for name in tensors if (found := _LAYER.search(name))}
    if len(layers) != config.num_hidden_layers:
        return f"The target's config announces {config.num_hidden_layers} layers, its weights hold {len(layers)}."
    for name, tensor in tensors.items():
        if name.endswith(("embed_tokens.weight", "token_embd.weight")) and len(tensor.shape) == 2:
            rows, columns = tensor.shape
            if rows != config.vocab_size:
                return f"The target's config announces {config.vocab_size} tokens, its embedding has {rows} rows."
            if tensor.dtype in ("F32", "F16", "BF16") and columns != config.hidden_size:
                return f"The target's hidden size is {config.hidden_size}, its embedding has {columns} columns."
    return ""
