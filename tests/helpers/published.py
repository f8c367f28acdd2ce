"""The published facts of known pairs, as `tests/core/pairs/published` stores them, made into facts of models."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from core.formats.safetensors_header import TensorFacts
from core.pairs.facts import ModelFacts

FOLDER = Path(__file__).parent.parent / "core" / "pairs" / "published"
_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "U32": 4, "U8": 1}


def published(name: str) -> dict[str, Any]:
    """The fixture of one pair."""
    fixture: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return fixture


def tensors(packed: dict[str, Any]) -> dict[str, TensorFacts]:
    """A header, from its form in the fixtures: layers that are alike are written once."""
    found = {name: _facts(entry) for name, entry in packed["once"].items()}
    for stack in packed["layers"]:
        for kind in stack["kinds"]:
            for layer in kind["at"]:
                found |= {f"{stack['prefix']}.{layer}.{name}": _facts(e) for name, e in kind["tensors"].items()}
    return found


def target_facts(fixture: dict[str, Any], precision: str, name: str = "target") -> ModelFacts:
    """The target in one precision, config and header."""
    stored = fixture["target"]["precisions"][precision]
    quantised = {"quantization": stored["quantization"]} if stored["quantization"] else {}
    return ModelFacts(name, {**fixture["target"]["config"], **quantised}, tensors(stored["tensors"]))


def draft_facts(fixture: dict[str, Any], name: str = "draft") -> ModelFacts:
    """The draft, config and header."""
    return ModelFacts(name, fixture["draft"]["config"], tensors(fixture["draft"]["tensors"]))


def _facts(entry: list[Any]) -> TensorFacts:
    dtype, shape = entry
    return TensorFacts(dtype, tuple(shape), math.prod(shape) * _BYTES[dtype])
