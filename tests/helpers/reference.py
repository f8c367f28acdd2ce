"""A DFlash draft and a llama layer in plain numpy, float64: what the engine's models are held to.

Written from the format (DFlash, Chen, Liang, Liu, 2026; the published checkpoints' config and tensor names), not from
the engine: RoPE turns complex numbers, every key carries its absolute position, and who sees whom is decided from
positions alone. Each step that implementations got wrong is a method of its own, so that a test can get it wrong too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from core.formats.draft_config import DraftConfig

Array = npt.NDArray[np.float64]
Weights = Mapping[str, Array]


def relative_error(got: npt.ArrayLike, expected: Array) -> float:
    """Frobenius norm of the difference over that of `expected`."""
    return float(np.linalg.norm(np.asarray(got, np.float64) - expected) / np.linalg.norm(expected))


def rms_norm(rows: Array, weight: Array, eps: float) -> Array:
    """Divide by the root mean square of the last axis. No mean is subtracted."""
    mean_square: Array = np.mean(rows * rows, axis=-1, keepdims=True)
    return rows * (mean_square + eps) ** -0.5 * weight


def swiglu(rows: Array, weights: Weights, prefix: str) -> Array:
    gate, up, down = (weights[f"{prefix}{name}_proj.weight"].T for name in ("gate", "up", "down"))
    opened = rows @ gate
    product: Array = (opened / (1 + np.exp(-opened)) * (rows @ up)) @ down
    return product


@dataclass(frozen=True)
class Rope:
    """Split-half RoPE: channel j and channel j + half are one complex number."""

    frequencies: Array
    """[head dim / 2]: radians a position."""
    factor: float
    """On turned queries and keys alike."""

    def __call__(self, heads: Array, first: int) -> Array:
        """[n, heads, head dim] rows at positions first .. first + n - 1."""
        half = heads.shape[-1] // 2
        angles = (first + np.arange(len(heads)))[:, None, None] * self.frequencies
        turned = (heads[..., :half] + 1j * heads[..., half:]) * np.exp(1j * angles) * self.factor
        return np.concatenate([turned.real, turned.imag], axis=-1)


def make_rope(head_dim: int, theta: float, scaling: Mapping[str, Any] | None) -> Rope:
    """Plain or YaRN (Peng, Quesnelle, Fan, Shippole, 2023, arXiv 2309.00071, sections 3.2 and 3.4).

    A pair that turns more than beta_fast times within the original context keeps its frequency, one that turns less
    than beta_slow times has it divided by the factor s, those between are mixed; queries and keys grow by
    0.1 ln s + 1. The paper mixes linearly in the number of turns. Its released code, and so every checkpoint, mixes
    linearly in the pair's index, from the last whole index before beta_fast to the first one after beta_slow.
    """
    pair = np.arange(head_dim // 2)
    plain = theta ** (-2.0 * pair / head_dim)
    kind = (scaling or {}).get("rope_type") or (scaling or {}).get("type", "default")
    if scaling is None or kind == "default":
        return Rope(plain, 1.0)
    assert kind == "yarn", kind
    context, s = scaling["original_max_position_embeddings"], scaling["factor"]

    def index(turns: float) -> float:
        """Where context x theta^(-2 index / head dim) is this many turns."""
        return head_dim / 2 * math.log(context / (2 * math.pi * turns), theta)

    low = max(math.floor(index(scaling.get("beta_fast", 32))), 0)
    high = min(math.ceil(index(scaling.get("beta_slow", 1))), head_dim - 1)
    stretched = np.clip((pair - low) / max(high - low, 1e-3), 0, 1)
    return Rope(plain * (1 - stretched) + plain / s * stretched, 0.1 * math.log(s) + 1)


def attend(queries: Array, keys: Array, values: Array, visible: npt.NDArray[np.bool_], kv_head: Sequence[int]) -> Array:
    """[n, heads, d] queries over [m, kv heads, d] keys and values; `visible` is [n, m]. Gives [n, heads x d]."""
    outputs = []
    for head, shared in enumerate(kv_head):
        scores = queries[:, head] @ keys[:, shared].T / math.sqrt(queries.shape[-1])
        scores = np.where(visible, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        outputs.append(weights / weights.sum(axis=-1, keepdims=True) @ values[:, shared])
    return np.concatenate(outputs, axis=-1)


class ReferenceDraft:
    """The draft of the published checkpoints; `weights` by their published names."""

    def __init__(self, config: DraftConfig, weights: Weights) -> None:
        self.config = config
        self.weights = weights
        self.rope = make_rope(config.head_dim, config.rope_theta, config.rope_scaling)
        self._forget()

    def _forget(self) -> None:
        self.length = 0
        """Context positions: P before an ingest of S rows, P + S after it."""
        empty = np.zeros((0, self.config.num_key_value_heads, self.config.head_dim))
        self.context = [(empty, empty) for _ in range(self.config.num_hidden_layers)]
        """Keys (normed and turned) and values of each layer, [length, kv heads, head dim]."""

    # ---------------------------------------------------- what others got wrong

    def norm(self, rows: Array, name: str) -> Array:
        return rms_norm(rows, self.weights[f"{name}.weight"], self.config.rms_norm_eps)

    def head_norm(self, heads: Array, name: str) -> Array:
        """q_norm and k_norm: over the channels of each head on its own."""
        return self.norm(heads, name)

    def rotate(self, heads: Array, first: int) -> Array:
        return self.rope(heads, first)

    def ingest_position(self) -> int:
        """Of the first new context row."""
        return self.length

    def block_position(self) -> int:
        """Of the anchor."""
        return self.length

    def context_rows(self, features: Array, _layer: int) -> Array:
        """What each layer's Wk and Wv read: no norm of the layer's own comes between."""
        return self.norm(features @ self.weights["fc.weight"].T, "hidden_norm")

    def visible(self, layer: int, query: npt.NDArray[np.int_], key: npt.NDArray[np.int_]) -> npt.NDArray[np.bool_]:
        """Whether the block row at position `query` sees the key at position `key` (of the context or the block).

        A sliding layer's window counts the query itself. Where nothing is causal it also ends as far ahead.
        """
        config = self.config
        sliding = config.layer_types[layer] == "sliding_attention"
        causal = sliding if config.is_causal is None else config.is_causal
        seen = np.ones(np.broadcast(query, key).shape, dtype=bool)
        if causal:
            seen &= key <= query
        if sliding:
            assert config.sliding_window is not None
            seen &= abs(query - key) < config.sliding_window
        return seen

    def kv_head(self, head: int) -> int:
        """Neighbouring query heads share one key-value head."""
        return head * self.config.num_key_value_heads // self.config.num_attention_heads

    def predicting(self, rows: Array) -> Array:
        """The anchor is known: its row predicts nothing."""
        return rows[1:]

    # ---------------------------------------------------------------- the model

    def ingest(self, features: Array) -> None:
        """Append [S, taps x hidden] rows to the context."""
        for layer, (keys, values) in enumerate(self.context):
            new_keys, new_values = self._keys_values(layer, self.context_rows(features, layer), self.ingest_position())
            self.context[layer] = np.concatenate([keys, new_keys]), np.concatenate([values, new_values])
        self.length += len(features)

    def attention(self, layer: int, rows: Array) -> Array:
        """The delta of a layer's attention on block rows [B, hidden]."""
        normed = self.norm(rows, f"layers.{layer}.input_layernorm")
        return self.around(f"layers.{layer}.attention_conv", normed, lambda entering: self._attended(layer, entering))

    def mlp(self, layer: int, rows: Array) -> Array:
        """The delta of a layer's MLP."""
        normed = self.norm(rows, f"layers.{layer}.post_attention_layernorm")
        return self.around(
            f"layers.{layer}.mlp_conv", normed, lambda entering: swiglu(entering, self.weights, f"layers.{layer}.mlp.")
        )

    def around(self, _name: str, normed: Array, sublayer: Callable[[Array], Array]) -> Array:
        """What stands around a sublayer: nothing, in the first generation."""
        return sublayer(normed)

    def _attended(self, layer: int, normed: Array) -> Array:
        prefix = f"layers.{layer}."
        queries = self._heads(normed, f"{prefix}self_attn.q_proj")
        queries = self.rotate(self.head_norm(queries, f"{prefix}self_attn.q_norm"), self.block_position())
        block_keys, block_values = self._keys_values(layer, normed, self.block_position())
        keys = np.concatenate([self.context[layer][0], block_keys])
        values = np.concatenate([self.context[layer][1], block_values])
        position = np.arange(self.length + len(normed))
        visible = self.visible(layer, position[self.length :, None], position[None])
        shared = [self.kv_head(head) for head in range(self.config.num_attention_heads)]
        return self._linear(attend(queries, keys, values, visible, shared), f"{prefix}self_attn.o_proj")

    def logits(self, block: Array, head: Array) -> Array:
        """Logits [B - 1, vocabulary] of a block [B, hidden] embedded as the target does; `head` is its LM head."""
        logits = self.hidden(block) @ head.T * self.config.output_multiplier
        cap = self.config.final_logit_softcapping
        return logits if cap is None else cap * np.tanh(logits / cap)

    def hidden(self, block: Array) -> Array:
        """[B - 1, hidden]: the rows after the final norm."""
        rows = block * self.config.input_embedding_scale
        for layer in range(self.config.num_hidden_layers):
            rows = rows + self.attention(layer, rows)
            rows = rows + self.mlp(layer, rows)
        return self.norm(self.predicting(rows), "norm")

    def _linear(self, rows: Array, name: str) -> Array:
        product: Array = rows @ self.weights[f"{name}.weight"].T
        return product + self.weights[f"{name}.bias"] if self.config.attention_bias else product

    def _heads(self, rows: Array, name: str) -> Array:
        return self._linear(rows, name).reshape(len(rows), -1, self.config.head_dim)

    def _keys_values(self, layer: int, rows: Array, first: int) -> tuple[Array, Array]:
        prefix = f"layers.{layer}.self_attn."
        keys = self.head_norm(self._heads(rows, f"{prefix}k_proj"), f"{prefix}k_norm")
        return self.rotate(keys, first), self._heads(rows, f"{prefix}v_proj")


class ReferenceLlamaLayer:
    """One decoder layer of a llama: causal attention over everything kept so far, no norm of queries and keys."""

    def __init__(self, weights: Weights, *, heads: int, kv_heads: int, head_dim: int, theta: float, eps: float) -> None:
        self.weights = weights
        self.eps = eps
        self.rope = make_rope(head_dim, theta, None)
        self.kv_head = [head * kv_heads // heads for head in range(heads)]
        self.keys = self.values = np.zeros((0, kv_heads, head_dim))

    def __call__(self, rows: Array, keep: int) -> Array:
        """The delta on rows [n, hidden] that follow the kept ones; of these only the first `keep` are remembered."""
        past, n = len(self.keys), len(rows)
        normed = rms_norm(rows, self.weights["input_layernorm.weight"], self.eps)
        queries, keys, values = (
            (normed @ self.weights[f"self_attn.{name}_proj.weight"].T).reshape(n, -1, self.keys.shape[-1])
            for name in "qkv"
        )
        keys = np.concatenate([self.keys, self.rope(keys, past)])
        values = np.concatenate([self.values, values])
        visible = np.arange(past + n)[None] <= past + np.arange(n)[:, None]
        attended = attend(self.rope(queries, past), keys, values, visible, self.kv_head)
        attention = attended @ self.weights["self_attn.o_proj.weight"].T
        self.keys, self.values = keys[: past + keep], values[: past + keep]
        after = rms_norm(rows + attention, self.weights["post_attention_layernorm.weight"], self.eps)
        return attention + swiglu(after, self.weights, "mlp.")


# Mistakes that implementations of DFlash made: each has to show.


class NormOverAllChannels(ReferenceDraft):
    def head_norm(self, heads: Array, name: str) -> Array:
        weight = np.tile(self.weights[f"{name}.weight"], heads.shape[1])
        return rms_norm(heads.reshape(len(heads), -1), weight, self.config.rms_norm_eps).reshape(heads.shape)


class InterleavedRope(ReferenceDraft):
    def rotate(self, heads: Array, first: int) -> Array:
        halves = super().rotate(np.concatenate([heads[..., 0::2], heads[..., 1::2]], axis=-1), first)
        return np.stack(np.split(halves, 2, axis=-1), axis=-1).reshape(heads.shape)


class PositionsWithoutP(ReferenceDraft):
    def ingest(self, features: Array) -> None:
        self.new_rows = len(features)
        super().ingest(features)

    def ingest_position(self) -> int:
        return 0

    def block_position(self) -> int:
        return self.new_rows


class MeanSubtracted(ReferenceDraft):
    def norm(self, rows: Array, name: str) -> Array:
        return super().norm(rows - rows.mean(axis=-1, keepdims=True), name)


class LastChunkOnly(ReferenceDraft):
    def ingest(self, features: Array) -> None:
        self._forget()
        super().ingest(features)


class AnchorPredicts(ReferenceDraft):
    def predicting(self, rows: Array) -> Array:
        return rows[:-1]


class ContextThroughTheLayersNorm(ReferenceDraft):
    def context_rows(self, features: Array, layer: int) -> Array:
        return self.norm(super().context_rows(features, layer), f"layers.{layer}.input_layernorm")


class HeadsShareInTurn(ReferenceDraft):
    def kv_head(self, head: int) -> int:
        return head % self.config.num_key_value_heads


class BlockOneLate(ReferenceDraft):
    def block_position(self) -> int:
        return self.length + 1


MISTAKES = [
    NormOverAllChannels,
    InterleavedRope,
    PositionsWithoutP,
    MeanSubtracted,
    LastChunkOnly,
    AnchorPredicts,
    ContextThroughTheLayersNorm,
    HeadsShareInTurn,
    BlockOneLate,
]
