"""The target model: an mlx-lm model with an embedding, an LM head, and taps that can be put on and taken off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx import nn

from core.errors import PairMismatch, UnsupportedModel


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
        self._inner = _find_inner(model)
        self._tapped: list[int] = []
        self._recorded: dict[int, mx.array] = {}

    @property
    def layers(self) -> list[nn.Module]:
        """The decoder layers, in order."""
        layers: list[nn.Module] = self._inner.layers
        return layers

    @property
    def final_norm(self) -> nn.Module:
        """The norm between the last layer and the LM head."""
        norm: nn.Module = self._inner.norm
        return norm

    @property
    def hidden_size(self) -> int:
        """Channels of the residual stream."""
        return int(self.embed(mx.array([0])).shape[-1])

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding."""
        return int(self._inner.embed_tokens.weight.shape[0])

    @property
    def dtype(self) -> mx.Dtype:
        """The type that activations have."""
        return self.embed(mx.array([0])).dtype

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
            _untap(self.layers[layer])
        self._tapped = []
        self._recorded.clear()

    def forward(self, tokens: mx.array, cache: list[Any]) -> Forward:
        """One lazy pass over `tokens` ([n] integers), which are appended to `cache`."""
        logits = self.model(tokens[None], cache=cache)
        return Forward(logits[0], self._take_taps())

    def final_rows(self, tokens: mx.array) -> tuple[mx.array, tuple[mx.array, ...]]:
        """[n] tokens, a text of their own, to [n, hidden] rows after the final norm and the taps; lazily."""
        rows = self._inner(tokens[None])
        return rows[0], self._take_taps()

    def embed(self, tokens: mx.array) -> mx.array:
        """[n] tokens to [n, hidden] rows, scaled as the model scales its own input."""
        rows: mx.array = self._inner.embed_tokens(tokens)
        scale = getattr(self._inner, "embed_scale", None)
        return rows if scale is None else rows * scale

    def lm_head(self, hidden: mx.array) -> mx.array:
        """[n, hidden] rows after a final norm to [n, vocabulary] logits."""
        head = self._own_head()
        logits: mx.array = self._inner.embed_tokens.as_linear(hidden) if head is None else head(hidden)
        return logits

    def head_weights(self, tokens: mx.array) -> mx.array:
        """[n, hidden]: the LM head's weights of these tokens."""
        head = self._own_head()
        return self._inner.embed_tokens(tokens) if head is None else plain_weight(head, tokens)

    def _take_taps(self) -> tuple[mx.array, ...]:
        """What the last pass recorded. The arrays live as long as the caller wants, not until the next pass."""
        taps = tuple(self._recorded[layer][0] for layer in self._tapped)
        self._recorded.clear()
        return taps

    def _own_head(self) -> Any:
        """The LM head; None where the embedding is the head too."""
        owner = getattr(self.model, "language_model", self.model)
        return owner.lm_head if "lm_head" in owner else None


def plain_weight(module: nn.Module, rows: mx.array | slice = slice(None)) -> mx.array:
    """The weight of a module, dequantised where it is quantised; only these rows, where they are given."""
    if "scales" not in module:
        return module.weight[rows]
    biases = module.biases[rows] if "biases" in module else None
    kind = {"group_size": module.group_size, "bits": module.bits, "mode": module.mode}
    return mx.dequantize(module.weight[rows], module.scales[rows], biases, **kind)


def _find_inner(model: nn.Module) -> Any:
    """The module that holds `embed_tokens` and `layers`: where it sits differs between mlx-lm's model classes."""
    for path in (("model",), ("language_model", "model"), ()):
        inner: Any = model
        for name in path:
            inner = getattr(inner, name, None)
        if hasattr(inner, "embed_tokens") and hasattr(inner, "layers"):
            return inner
    raise UnsupportedModel(
        f"The model class {type(model).__module__} is built in a way that Mirror SD does not know.",
        "Choose another target.",
        "no embed_tokens and layers found",
    )


def _tap(layer: nn.Module, index: int, recorded: dict[int, mx.array]) -> None:
    """Give this one layer a subclass whose call also records: parameters, names and attributes stay as they are."""
    plain = type(layer)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = plain.__call__(self, *args, **kwargs)
        recorded[index] = output[0] if isinstance(output, tuple) else output
        return output

    object.__setattr__(layer, "__class__", type(plain.__name__, (plain,), {"__call__": call, "tapped": plain}))


def _untap(layer: nn.Module) -> None:
    object.__setattr__(layer, "__class__", type(layer).tapped)
