"""The target model: an mlx-lm model with an embedding, an LM head, and taps that can be put on and taken off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mlx.core as mx
from mlx import nn

from core.engine.hooks import hook, unhook
from core.engine.target_parts import find_parts, measure_embedding_scale
from core.errors import PairMismatch


@dataclass(frozen=True)
class Forward:
    """What one pass over n tokens gave, not yet evaluated."""

    logits: mx.array
    """[n, vocabulary]: row i predicts the token after input i."""
    taps: tuple[mx.array, ...]
    """One [n, hidden] array a tap: the output of the tapped layer (its residual stream)."""


class Target:
    """Wraps a causal language model of mlx-lm. All its arrays belong to the thread that made them."""

    def __init__(self, model: nn.Module, context_length: int) -> None:
        self.model = model
        self.context_length = context_length
        self._parts = find_parts(model)
        self._tapped: list[int] = []
        self._recorded: dict[int, mx.array] = {}

    @property
    def layers(self) -> list[nn.Module]:
        """The decoder layers, in order."""
        return self._parts.layers

    @property
    def final_norm(self) -> nn.Module:
        """The norm between the last layer and the LM head."""
        return self._parts.final_norm

    @property
    def hidden_size(self) -> int:
        """Channels of the residual stream."""
        return int(self._parts.embedding(mx.array([0])).shape[-1])

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding."""
        return int(self._parts.embedding.weight.shape[0])

    @property
    def dtype(self) -> mx.Dtype:
        """The type that activations have."""
        dtype: mx.Dtype = self._parts.embedding(mx.array([0])).dtype
        return dtype

    @property
    def taps(self) -> tuple[int, ...]:
        """The tapped layers, 0-based, in the order in which `forward` gives them."""
        return tuple(self._tapped)

    def make_cache(self) -> list[Any]:
        """Empty caches, one a layer, as the model wants them."""
        from mlx_lm.models.cache import make_prompt_cache

        return list(make_prompt_cache(self.model))

    def set_taps(self, layers: Sequence[int]) -> None:
        """Record the outputs of these layers in every later pass, instead of those tapped before.

        Raises `PairMismatch` where a layer does not exist.
        """
        self.clear_taps()
        for layer in layers:
            if not 0 <= layer < len(self.layers):
                raise PairMismatch(
                    f"The draft reads layer {layer} of its target, but this target has {len(self.layers)} layers.",
                    "Choose the target that the draft was trained for.",
                )
            _tap(self.layers[layer], layer, self._recorded)
        self._tapped = list(layers)

    def clear_taps(self) -> None:
        """Take all taps off: the model is as it was loaded."""
        for layer in self._tapped:
            unhook(self.layers[layer])
        self._tapped = []
        self._recorded.clear()

    def forward(self, tokens: mx.array, cache: list[Any]) -> Forward:
        """One lazy pass over `tokens` ([n] integers), which are appended to `cache`."""
        logits = self.model(tokens[None], cache=cache)
        return Forward(logits[0], self._take_taps())

    def final_rows(self, tokens: mx.array) -> tuple[mx.array, tuple[mx.array, ...]]:
        """[n] tokens, a text of their own, to [n, hidden] rows after the final norm and the taps; lazily."""
        rows = self._parts.inner(tokens[None], None)
        return rows[0], self._take_taps()

    def embed(self, tokens: mx.array) -> mx.array:
        """[n] tokens to [n, hidden] rows, scaled as the model scales its own input.

        The first call measures the scale, and raises `UnsupportedModel` where a draft cannot share embedding and head.
        """
        rows: mx.array = self._parts.embedding(tokens)
        return rows if self._embedding_scale is None else rows * self._embedding_scale

    def lm_head(self, hidden: mx.array) -> mx.array:
        """[n, hidden] rows after a final norm to [n, vocabulary] logits.

        Without the scale and the soft cap that some models have behind it: a draft's config names its own.
        """
        return self._parts.logits(hidden)

    def head_weights(self, tokens: mx.array) -> mx.array:
        """[n, hidden]: the LM head's weights of these tokens."""
        head = self._parts.head
        return self._parts.embedding(tokens) if head is None else plain_weight(head, tokens)

    @cached_property
    def _embedding_scale(self) -> mx.array | None:
        scale = measure_embedding_scale(self.model, self._parts)
        self._recorded.clear()  # taps of the measurement are no one's
        return scale

    def _take_taps(self) -> tuple[mx.array, ...]:
        """What the last pass recorded. The arrays live as long as the caller wants, not until the next pass."""
        taps = tuple(self._recorded[layer][0] for layer in self._tapped)
        self._recorded.clear()
        return taps


def plain_weight(module: nn.Module, rows: mx.array | slice = slice(None)) -> mx.array:
    """The weight of a module, dequantised where it is quantised; only these rows, where they are given."""
    if "scales" not in module:
        return module.weight[rows]
    biases = module.biases[rows] if "biases" in module else None
    kind = {"group_size": module.group_size, "bits": module.bits, "mode": module.mode}
    return mx.dequantize(module.weight[rows], module.scales[rows], biases, **kind)


def _tap(layer: nn.Module, index: int, recorded: dict[int, mx.array]) -> None:
    """From now on calls of this one layer also record their output."""
    plain = type(layer)

    def call(layer: nn.Module, *args: Any, **kwargs: Any) -> Any:
        output = plain.__call__(layer, *args, **kwargs)
        recorded[index] = output[0] if isinstance(output, tuple) else output
        return output

    hook(layer, call)
