"""The `config.json` of a DFlash draft, read and checked. No mlx here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from core.errors import MissingFile, UnreadableModel, UnsupportedModel

_Size = Annotated[int, Meta(ge=1, le=1 << 24)]
_Index = Annotated[int, Meta(ge=0, le=1 << 24)]
_Positive = Annotated[float, Meta(gt=0, le=1e12)]
LayerType = Literal["full_attention", "sliding_attention"]
_Block = Annotated[int, Meta(ge=2, le=64)]


class _DFlash(msgspec.Struct, frozen=True):
    """The `dflash_config` object."""

    mask_token_id: _Index
    target_layer_ids: tuple[_Index, ...] | None = None
    block_size: _Block | None = None
    final_logit_softcapping: float | None = None
    input_embedding_scale: _Positive = 1.0
    output_multiplier: _Positive = 1.0


class _Raw(msgspec.Struct, frozen=True):
    """The file as it is published."""

    hidden_size: _Size
    num_hidden_layers: Annotated[int, Meta(ge=1, le=64)]
    num_attention_heads: Annotated[int, Meta(ge=1, le=1024)]
    num_key_value_heads: Annotated[int, Meta(ge=1, le=1024)]
    head_dim: Annotated[int, Meta(ge=2, le=1024, multiple_of=2)]  # RoPE turns pairs
    intermediate_size: _Size
    vocab_size: _Size
    rms_norm_eps: Annotated[float, Meta(gt=0, lt=1)]
    max_position_embeddings: _Size
    num_target_layers: Annotated[int, Meta(ge=1, le=4096)]
    dflash_config: _DFlash
    architectures: tuple[str, ...] = ()
    block_size: _Block = 16
    rope_theta: _Positive | None = None
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    layer_types: tuple[LayerType, ...] | None = None
    sliding_window: _Size | None = None
    is_causal: bool | None = None
    final_logit_softcapping: float | None = None


class DraftConfig(msgspec.Struct, frozen=True):
    """What a DFlash draft is built from. Names follow the published format."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    rms_norm_eps: float
    max_position_embeddings: int
    rope_theta: float
    rope_scaling: dict[str, Any] | None
    num_target_layers: int
    block_size: int
    """Rows of a block: the anchor and block_size - 1 masks."""
    target_layer_ids: tuple[int, ...]
    mask_token_id: int
    layer_types: tuple[LayerType, ...]
    sliding_window: int | None
    is_causal: bool | None
    """None: sliding layers are causal inside the block, full ones are not."""
    final_logit_softcapping: float | None
    input_embedding_scale: float
    output_multiplier: float

    def sliding(self, layer: int) -> bool:
        """Whether this layer sees only the last `sliding_window` positions."""
        return self.layer_types[layer] == "sliding_attention"

    def causal(self, layer: int) -> bool:
        """Whether rows of the block see only the block's earlier rows in this layer."""
        return self.sliding(layer) if self.is_causal is None else self.is_causal


def read_draft_config(folder: Path) -> DraftConfig:
    """Read and check `folder/config.json`.

    Raises `MissingFile`, `UnsupportedModel` (not a first-generation DFlash draft), `UnreadableModel` (not JSON, or a
    field missing or absurd).
    """
    path = folder / "config.json"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MissingFile(
            f"The draft folder {folder} has no readable config.json.", "Choose a DFlash draft folder.", str(error)
        ) from error
    try:
        architectures = msgspec.json.decode(data, type=dict[str, Any]).get("architectures")
        if architectures != ["DFlashDraftModel"]:
            raise UnsupportedModel(
                f"{folder.name} is not a DFlash draft that Mirror SD can run (architectures: {architectures!r:.80}).",
                "Choose a draft whose config.json names DFlashDraftModel.",
                str(path),
            )
        return _checked(msgspec.json.decode(data, type=_Raw), path)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableModel(
            f"The config.json of the draft {folder.name} is damaged or has an impossible value: {error}.",
            "Download the draft again, or choose another.",
            str(path),
        ) from error


def published_taps(target_layers: int, count: int) -> tuple[int, ...]:
    """The published rule, from the second layer to the third from the top: round(1 + i (N - 4) / (count - 1))."""
    return tuple(round(1 + i * (target_layers - 4) / max(count - 1, 1)) for i in range(count))


def _checked(raw: _Raw, path: Path) -> DraftConfig:
    """The config with defaults filled in; what no single field shows is checked here."""
    layers, dflash = raw.num_hidden_layers, raw.dflash_config
    taps = dflash.target_layer_ids
    if taps is None:
        taps = published_taps(raw.num_target_layers, layers)
    full: LayerType = "full_attention"
    layer_types = raw.layer_types or (full,) * layers
    rope = raw.rope_parameters or raw.rope_scaling
    theta = raw.rope_theta or (rope or {}).get("rope_theta", 10000.0)
    softcap = dflash.final_logit_softcapping or raw.final_logit_softcapping
    for field, value, sound in (
        ("num_key_value_heads", raw.num_key_value_heads, raw.num_attention_heads % raw.num_key_value_heads == 0),
        ("target_layer_ids", taps, len(set(taps)) == len(taps) and all(0 <= t < raw.num_target_layers for t in taps)),
        ("mask_token_id", dflash.mask_token_id, dflash.mask_token_id < raw.vocab_size),
        ("layer_types", layer_types, len(layer_types) == layers),
        ("sliding_window", raw.sliding_window, raw.sliding_window or "sliding_attention" not in layer_types),
        ("rope_theta", theta, isinstance(theta, int | float) and theta > 0),
        ("final_logit_softcapping", softcap, softcap is None or softcap >= 0),
    ):
        if not sound:
            raise UnreadableModel(
                f"The config.json of the draft {path.parent.name} has an impossible value: {field} is {value!r:.80}.",
                "Download the draft again, or choose another.",
                str(path),
            )
    return DraftConfig(
        hidden_size=raw.hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=raw.num_attention_heads,
        num_key_value_heads=raw.num_key_value_heads,
        head_dim=raw.head_dim,
        intermediate_size=raw.intermediate_size,
        vocab_size=raw.vocab_size,
        rms_norm_eps=raw.rms_norm_eps,
        max_position_embeddings=raw.max_position_embeddings,
        rope_theta=float(theta),
        rope_scaling=rope,
        num_target_layers=raw.num_target_layers,
        block_size=dflash.block_size or raw.block_size,
        target_layer_ids=taps,
        mask_token_id=dflash.mask_token_id,
        layer_types=layer_types,
        sliding_window=raw.sliding_window,
        is_causal=raw.is_causal,
        final_logit_softcapping=softcap or None,
        input_embedding_scale=dflash.input_embedding_scale,
        output_multiplier=dflash.output_multiplier,
    )
