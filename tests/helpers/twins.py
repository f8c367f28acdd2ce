"""An MLX draft and a numpy reference with its weights, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import mlx.core as mx
import msgspec
import numpy as np
from mlx.utils import tree_flatten

from core.engine.context import DraftContext
from core.engine.drafter import embed, masked_block
from core.engine.drafter_mlx import MlxDrafter
from core.engine.selector import Said
from core.engine.target import Target
from helpers.reference import Array, ReferenceDraft, relative_error

TOLERANCE = 1e-5
"""Relative (Frobenius) error of every delta in float32."""
FAR = 1e-2
"""A mistake differs by a thousand times the tolerance."""


def float64(array: mx.array) -> Array:
    return np.array(array.astype(mx.float32)).astype(np.float64)


def weights_of(module: Any) -> dict[str, Array]:
    return {name: float64(array) for name, array in tree_flatten(module.parameters())}


class Twins:
    """An MLX draft and a reference with its weights, that get the same rows."""

    def __init__(self, drafter: MlxDrafter, kind: type[ReferenceDraft] = ReferenceDraft, **misread: object) -> None:
        """The reference may be of a mistaken kind, or read another value in a field of the config."""
        self.drafter = drafter
        self.draft = drafter.draft
        self.context = DraftContext(drafter.config.num_hidden_layers)
        self.reference = kind(msgspec.structs.replace(drafter.config, **misread), weights_of(self.draft))
        self.random = np.random.default_rng(5)

    def ingest(self, chunks: Sequence[int]) -> None:
        hidden, taps = self.draft.config.hidden_size, len(self.draft.config.target_layer_ids)
        for rows in chunks:
            features = self.random.standard_normal((rows, taps, hidden)).astype(np.float32)
            features[0] *= 1000  # real taps have such rows
            self.ingest_rows([mx.array(features[:, tap]) for tap in range(taps)])

    def ingest_rows(self, taps: Sequence[mx.array]) -> None:
        self.context.queue(taps)
        self.drafter.ingest(self.context)
        self.reference.ingest(np.concatenate([float64(tap) for tap in taps], axis=-1))

    def errors(self) -> dict[str, float]:
        """The relative error of each sublayer's and each layer's delta on random rows, and of a real block's logits.

        The reference goes its own way from the block's embedding on: errors add up over the layers.
        """
        found = {}
        config = self.draft.config
        rows = mx.array(self.random.standard_normal((1, config.block_size, config.hidden_size)).astype(np.float32))
        expected = float64(rows[0])
        for i, (layer, view) in enumerate(zip(self.draft.layers, self.draft.views(self.context.caches), strict=True)):
            attend = partial(layer.self_attn, rope=self.draft.rope, view=view)
            attention = around(layer, "attention_conv", layer.input_layernorm(rows), attend)
            mlp = around(layer, "mlp_conv", layer.post_attention_layernorm(rows + attention), layer.mlp)
            output = layer(rows, self.draft.rope, view)
            expected_attention = self.reference.attention(i, expected)
            expected_mlp = self.reference.mlp(i, expected + expected_attention)
            found[f"attention {i}"] = relative_error(float64(attention[0]), expected_attention)
            found[f"mlp {i}"] = relative_error(float64(mlp[0]), expected_mlp)
            delta = expected_attention + expected_mlp
            found[f"layer {i}"] = relative_error(float64(output[0]) - float64(rows[0]), delta)
            rows, expected = output, expected + delta
        embedding, head = target_matrices(self.drafter._target)
        found["hidden"] = relative_error(*self.hidden(embedding))
        found["logits"] = relative_error(*self.logits(embedding, head))
        return found

    def hidden(self, embedding: Array, anchor: int = 7) -> tuple[Array, Array]:
        """Rows behind the final norm of the block after `anchor`, both [block - 1, hidden]."""
        block = embed(masked_block(mx.array([anchor]), self.draft.config), self.drafter._target, self.draft.config)
        rows = self.draft(block[None], self.draft.views(self.context.caches))[0, 1:]
        return float64(rows), self.reference.hidden(self._block(embedding, anchor))

    def logits(self, embedding: Array, head: Array, anchor: int = 7) -> tuple[Array, Array]:
        """Logits of the block after `anchor`, the drafter's and the reference's: [block - 1, vocabulary], or those of
        the drafter's candidates, in the order of their numbers.
        """
        said, expected = self.say(anchor), self.reference.logits(self._block(embedding, anchor), head)
        if isinstance(said, mx.array):
            return float64(said), expected
        order = mx.argsort(said.tokens, axis=1)
        tokens, logits = (np.array(mx.take_along_axis(part, order, axis=1)) for part in (said.tokens, said.logits))
        return logits.astype(np.float64), np.take_along_axis(expected, tokens.astype(np.int64), axis=1)

    def say(self, anchor: int = 7) -> Said:
        """What the drafter says of the block after `anchor`."""
        return self.drafter.propose(mx.array([anchor], dtype=mx.uint32), self.context, self.draft.config.block_size - 1)

    def _block(self, embedding: Array, anchor: int) -> Array:
        config = self.draft.config
        return embedding[[anchor] + [config.mask_token_id] * (config.block_size - 1)]


def around(layer: Any, name: str, normed: mx.array, sublayer: Any) -> mx.array:
    """What a sublayer adds to the stream, with what stands around it in this layer."""
    return layer[name](normed, sublayer) if name in layer else sublayer(normed)


def target_matrices(target: Target) -> tuple[Array, Array]:
    """The embedding as the target scales it, and the LM head, each [vocabulary, hidden]."""
    embedding = float64(target.model.model.embed_tokens.weight)
    head = float64(target.model.lm_head.weight) if "lm_head" in target.model else embedding
    return embedding * getattr(target.model.model, "embedding_multiplier", 1.0), head


def too_far(errors: dict[str, float]) -> dict[str, float]:
    return {name: error for name, error in errors.items() if not error <= TOLERANCE}
