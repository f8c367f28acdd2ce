"""The `config.json` of a target, as far as pairs need it: its shape, what its layers remember, how it is stored.

Loading a target is mlx-lm's business; this tells before it, and without it, what will come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from core.formats.quantization import Quantization, read_quantization
from core.formats.values import impossible, shown, wrong_field

_Size = Annotated[int, Meta(ge=1, le=1 << 24)]
_Count = Annotated[int, Meta(ge=1, le=1024)]
_Layers = Annotated[int, Meta(ge=1, le=4096)]
LayerKind = Literal["full", "sliding", "recurrent"]
"""What a layer keeps of the text before it: K and V of all positions, of the last ones, or a state of fixed size."""

PLAIN = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe")
"""mlx-lm's classes with full attention in every layer, unless `layer_types` says otherwise (llama)."""
HYBRID = ("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")
"""GatedDeltaNet in all layers but every fourth (`full_attention_interval`)."""
ALTERNATING = ("gpt_oss",)


class _Raw(msgspec.Struct, frozen=True):
    """The published fields; multimodal models keep them in `text_config`."""

    hidden_size: _Size
    num_hidden_layers: _Layers
    num_attention_heads: _Count
    vocab_size: _Size
    num_key_value_heads: _Count | None = None
    head_dim: Annotated[int, Meta(ge=1, le=1024)] | None = None
    intermediate_size: _Size | None = None
    max_position_embeddings: _Size | None = None
    tie_word_embeddings: bool | None = None
    layer_types: tuple[str, ...] | None = None
    sliding_window: _Size | None = None
    full_attention_interval: _Count = 4
    linear_num_value_heads: _Count | None = None
    linear_num_key_heads: _Count | None = None
    linear_key_head_dim: _Count | None = None
    linear_value_head_dim: _Count | None = None
    linear_conv_kernel_dim: _Count | None = None


class TargetConfig(msgspec.Struct, frozen=True):
    """A target's shape. Names follow the published format."""

    model_type: str
    hidden_size: int
    num_hidden_layers: int
    vocab_size: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    """0 where the config does not say (mixtures of experts)."""
    max_position_embeddings: int | None
    layer_kinds: tuple[LayerKind, ...] | None
    """None where it is not known for this kind of model."""
    sliding_window: int | None
    state_values: int
    """float32 values that a recurrent layer keeps; 0 where there is none."""
    convolution_values: int
    """Values of the activations' type that a recurrent layer keeps for its short convolution."""
    quantization: Quantization | None
    custom_code: str | None
    """The Python file that the model would bring along (`model_file`)."""


def parse_target_config(raw: Mapping[str, Any], name: str) -> TargetConfig:
    """Read a target's parsed `config.json`; `name` is for errors.

    Raises `UnreadableModel` where a field is missing or absurd.
    """
    model_type = raw.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise impossible("model", name, f"model_type is {shown(model_type)}, wanted is the name of an architecture")
    text = raw.get("text_config")
    flat = {**raw, **text} if isinstance(text, dict) else raw
    try:
        fields = msgspec.convert(flat, _Raw)
    except (msgspec.ValidationError, RecursionError) as error:
        raise impossible("model", name, wrong_field(error, flat)) from error
    problem = _contradiction(fields)
    if problem:
        raise impossible("model", name, problem)
    kinds = _layer_kinds(model_type, fields)
    state, convolution = _recurrent_values(fields) if kinds and "recurrent" in kinds else (0, 0)
    custom = raw.get("model_file")
    return TargetConfig(
        model_type=model_type,
        hidden_size=fields.hidden_size,
        num_hidden_layers=fields.num_hidden_layers,
        vocab_size=fields.vocab_size,
        num_key_value_heads=fields.num_key_value_heads or fields.num_attention_heads,
        head_dim=fields.head_dim or fields.hidden_size // fields.num_attention_heads,
        intermediate_size=fields.intermediate_size or 0,
        max_position_embeddings=fields.max_position_embeddings,
        layer_kinds=kinds,
        sliding_window=fields.sliding_window,
        state_values=state,
        convolution_values=convolution,
        quantization=read_quantization(raw, name),
        custom_code=None if custom is None else shown(custom),
    )


def _contradiction(raw: _Raw) -> str:
    heads, kv_heads = raw.num_attention_heads, raw.num_key_value_heads
    if kv_heads is not None and heads % kv_heads:
        return f"num_key_value_heads is {kv_heads}, which does not divide num_attention_heads {heads}"
    if raw.head_dim is None and raw.hidden_size % heads:
        return f"hidden_size is {raw.hidden_size}, which num_attention_heads {heads} does not divide"
    if raw.layer_types is not None and len(raw.layer_types) != raw.num_hidden_layers:
        return f"layer_types has {len(raw.layer_types)} entries, but num_hidden_layers is {raw.num_hidden_layers}"
    return ""


def _layer_kinds(model_type: str, raw: _Raw) -> tuple[LayerKind, ...] | None:
    """As mlx-lm's `make_cache` of these classes decides."""
    layers = range(raw.num_hidden_layers)
    if model_type in HYBRID:
        interval = raw.full_attention_interval
        return tuple("full" if (layer + 1) % interval == 0 else "recurrent" for layer in layers)
    if model_type in ALTERNATING or (model_type in ("llama", "mistral") and raw.layer_types):
        types = raw.layer_types or ("sliding_attention", "full_attention") * (raw.num_hidden_layers // 2)
        return tuple("full" if kind == "full_attention" else "sliding" for kind in types)
    plain: LayerKind = "full"
    return (plain,) * raw.num_hidden_layers if model_type in PLAIN else None


def _recurrent_values(raw: _Raw) -> tuple[int, int]:
    """GatedDeltaNet: a matrix a value head, and the last inputs of the convolution over queries, keys and values."""
    value_heads, key_heads = raw.linear_num_value_heads or 0, raw.linear_num_key_heads or 0
    key_dim, value_dim = raw.linear_key_head_dim or 0, raw.linear_value_head_dim or 0
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    return value_heads * value_dim * key_dim, ((raw.linear_conv_kernel_dim or 1) - 1) * channels
