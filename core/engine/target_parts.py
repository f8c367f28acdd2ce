"""Where mlx-lm's model classes keep the parts that a draft shares, and what they do with them inline.

A draft reads the target's embedding and ends in its LM head. Many families scale embeddings in the middle of their
forward pass (Gemma by the root of the width, Granite by a number of its config): the scale is measured on the model's
own first layer, and it is checked that the head found here ranks tokens as the model does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn

from core.engine.hooks import hook, unhook
from core.errors import UnsupportedModel

_EMBEDDINGS = ("embed_tokens", "embeddings")
_FINAL_NORMS = ("norm", "norm_f", "final_layernorm", "final_norm", "embedding_norm")
_SAMPLED_TOKENS = 16
_SORTED_ROWS = 4
_LOGIT_TOLERANCE = 3e-2
"""Of the spread of a row's logits: wide enough for products in half precision, whatever the number of rows."""


@dataclass(frozen=True)
class Parts:
    """The parts of one model."""

    inner: Any
    """The module that calls the other parts but the head."""
    embedding: nn.Module
    layers: list[nn.Module]
    final_norm: nn.Module
    head: nn.Module | None
    """None where the embedding is the head too."""

    def logits(self, hidden: mx.array) -> mx.array:
        """[n, hidden] rows after the final norm to [n, vocabulary]; no scale, no soft cap."""
        logits: mx.array = self.embedding.as_linear(hidden) if self.head is None else self.head(hidden)
        return logits


def find_parts(model: nn.Module) -> Parts:
    """Find them in a causal language model of mlx-lm. Raises `UnsupportedModel` where they are not where others are."""
    owner: Any = model
    while hasattr(owner, "language_model"):  # wrapped with a vision model
        owner = owner.language_model
    inner: Any
    for inner in (getattr(owner, "model", None), getattr(owner, "backbone", None), owner):
        embedding, norm = _first(inner, _EMBEDDINGS), _first(inner, _FINAL_NORMS)
        if embedding is not None and norm is not None and isinstance(getattr(inner, "layers", None), list):
            return Parts(inner, embedding, inner.layers, norm, owner.lm_head if "lm_head" in owner else None)
    raise UnsupportedModel(
        f"The model class {type(model).__module__} is built in a way that Mirror SD does not know.",
        "Choose another target.",
        "no embedding, layers and final norm found",
    )


def measure_embedding_scale(model: nn.Module, parts: Parts) -> mx.array | None:
    """What the model multiplies its embeddings with, a scalar of their type; None for 1. Waits for a pass of few rows.

    Raises `UnsupportedModel` where the first layer reads something else than scaled embeddings, or where the head does
    not give what the model gives: no draft could share them.
    """
    vocabulary = parts.embedding.weight.shape[0]
    tokens = mx.arange(0, vocabulary, max(vocabulary // _SAMPLED_TOKENS, 1))[:_SAMPLED_TOKENS]
    first, final, logits = _watch(model, parts, tokens)
    raw = parts.embedding(tokens)
    wide = raw.astype(mx.float32)
    scale = ((first.astype(mx.float32) * wide).sum() / wide.square().sum()).astype(raw.dtype)
    if not _close(raw * scale, first, 1e-4 if raw.dtype == mx.float32 else 3e-2):
        raise _unshared(model, "embedding")
    if not _monotone(parts.logits(final[:_SORTED_ROWS]), logits[:_SORTED_ROWS]):
        raise _unshared(model, "LM head")
    return None if scale.item() == 1 else scale


def _watch(model: nn.Module, parts: Parts, tokens: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    """What the first layer is given, what the final norm gives, and the logits, for [n] tokens; each [n, ...]."""
    seen: dict[str, mx.array] = {}
    plain_layer, plain_norm = type(parts.layers[0]), type(parts.final_norm)

    def first_layer(layer: nn.Module, rows: mx.array, *args: Any, **kwargs: Any) -> Any:
        seen["first"] = rows[0]
        return plain_layer.__call__(layer, rows, *args, **kwargs)

    def final_norm(norm: nn.Module, rows: mx.array) -> mx.array:
        output: mx.array = plain_norm.__call__(norm, rows)
        seen["final"] = output[0]
        return output

    hook(parts.layers[0], first_layer)
    hook(parts.final_norm, final_norm)
    try:
        logits: mx.array = model(tokens[None])[0]
    finally:
        unhook(parts.layers[0])
        unhook(parts.final_norm)
    return seen["first"], seen["final"], logits


def _close(one: mx.array, other: mx.array, tolerance: float) -> bool:
    """Whether they differ by little, compared with the largest value."""
    one, other = one.astype(mx.float32), other.astype(mx.float32)
    return bool((mx.abs(one - other).max() <= tolerance * mx.abs(other).max()).item())


def _monotone(ours: mx.array, models: mx.array) -> bool:
    """Whether the model's logits are ours, scaled and perhaps capped by a tanh: both keep each row's order.

    In our order, each of the model's logits may lie below the largest so far by rounding only. Sorted by numpy, which
    bears NaN; they give false.
    """
    order = np.argsort(np.array(ours.astype(mx.float32)), axis=-1)
    ordered = np.take_along_axis(np.array(models.astype(mx.float32)), order, axis=-1)
    drops = np.maximum.accumulate(ordered, axis=-1) - ordered
    return bool(drops.max() <= _LOGIT_TOLERANCE * (ordered.max() - ordered.min()))


def _unshared(model: nn.Module, part: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"The model class {type(model).__module__} uses its {part} in a way that Mirror SD does not know.",
        "Choose another target, or use this one without a draft.",
    )


def _first(module: Any, names: tuple[str, ...]) -> Any:
    """The first child of these names; None where there is none."""
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)
