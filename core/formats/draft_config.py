"""The `config.json` of a DFlash draft, read and checked: for the loader, and before anything is downloaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from core.errors import MissingFile, UnsupportedModel
from core.formats.values import impossible, shown, wrong_field

_Size = Annotated[int, Meta(ge=1, le=1 << 24)]
_Index = Annotated[int, Meta(ge=0, le=1 << 24)]
_Positive = Annotated[float, Meta(gt=0, le=1e12)]
LayerType = Literal["full_attention", "sliding_attention"]
_Block = Annotated[int, Meta(ge=2, le=64)]
_Small = Annotated[int, Meta(ge=1, le=4096)]
DFLASH, DFLASH_2 = "DFlashDraftModel", "DFlash2DraftModel"
_STRETCHED = ("linear", "llama3", "yarn", "deepseek_yarn")
_ROPE_TYPES = ("default", *_STRETCHED, "dynamic", "longrope", "mrope", "proportional")
_FAR = 1e30


class _DFlash(msgspec.Struct, frozen=True):
    """The `dflash_config` object."""

    mask_token_id: _Index
    target_layer_ids: tuple[_Index, ...] | None = None
    block_size: _Block | None = None
    final_logit_softcapping: float | None = None
    input_embedding_scale: _Positive = 1.0
    output_multiplier: _Positive = 1.0
    conv_kernel_size: _Small | None = None
    conv_group_size: _Small | None = None
    selector_rank: _Small | None = None
    selector_top_k: _Small | None = None


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
    attention_bias: bool = False
    hidden_act: str = "silu"


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
    architecture: str = DFLASH
    attention_bias: bool = False
    """Whether the projections of queries, keys, values and of attention's output have biases (Qwen3's option)."""
    hidden_act: str = "silu"
    conv_kernel_size: int = 0
    """Taps of the dynamic convolutions around attention and MLP; 0 in the first generation, which has none."""
    conv_group_size: int = 0
    """Channels that share a coefficient."""
    selector_rank: int = 0
    """Columns of the candidate selector's codebooks; 0 in the first generation, which has no selector."""
    selector_top_k: int = 0
    """Candidates a row."""

    def sliding(self, layer: int) -> bool:
        """Whether this layer sees only the last `sliding_window` positions."""
        return self.layer_types[layer] == "sliding_attention"

    def causal(self, layer: int) -> bool:
        """Whether rows of the block see only the block's earlier rows in this layer."""
        return self.sliding(layer) if self.is_causal is None else self.is_causal


def read_draft_config(folder: Path) -> DraftConfig:
    """Read and check `folder/config.json` of a draft that can be run.

    Raises `MissingFile`, `UnsupportedModel` (not a draft, or one with parts that are not computed), `UnreadableModel`
    (not JSON, or a field missing or absurd).
    """
    path = folder / "config.json"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MissingFile(
            f"The draft folder {folder} has no readable config.json.", "Choose a DFlash draft folder.", str(error)
        ) from error
    try:
        raw = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise impossible("draft", folder.name, str(error)) from error
    config = parse_draft_config(raw, folder.name)
    for reason in unsupported_parts(config):
        raise UnsupportedModel(f"The draft {folder.name} cannot be run: {reason}.", "Choose another draft.", str(path))
    return config


def parse_draft_config(raw: Mapping[str, Any], name: str) -> DraftConfig:
    """The config with defaults filled in, also of drafts that cannot be run (`unsupported_parts`).

    `name` is for errors. Raises `UnsupportedModel` where it is no DFlash draft's, `UnreadableModel` where a field is
    missing or absurd.
    """
    architectures = raw.get("architectures")
    if architectures not in ([DFLASH], [DFLASH_2]):
        raise UnsupportedModel(
            f"{name} is not a DFlash draft that Mirror SD can run (architectures: {shown(architectures)}).",
            f"Choose a draft whose config.json names {DFLASH} or {DFLASH_2}.",
        )
    try:
        fields = msgspec.convert(raw, _Raw)
    except (msgspec.ValidationError, RecursionError) as error:
        raise impossible("draft", name, wrong_field(error, raw)) from error
    config = _filled(fields, architectures[0])
    for problem in _contradictions(config):
        raise impossible("draft", name, problem)
    return msgspec.structs.replace(config, rope_theta=float(config.rope_theta))


def unsupported_parts(config: DraftConfig) -> Iterator[str]:
    """What of a sound draft this version does not compute; clauses without a full stop."""
    if config.hidden_act != "silu":
        yield f"its activation is {shown(config.hidden_act)}, only 'silu' is computed"


def published_taps(target_layers: int, count: int) -> tuple[int, ...]:
    """The published rule, from the second layer to the third from the top: round(1 + i (N - 4) / (count - 1))."""
    return tuple(round(1 + i * (target_layers - 4) / max(count - 1, 1)) for i in range(count))


def _filled(raw: _Raw, architecture: str) -> DraftConfig:
    layers, dflash = raw.num_hidden_layers, raw.dflash_config
    taps = dflash.target_layer_ids
    if taps is None:
        taps = published_taps(raw.num_target_layers, layers)
    full: LayerType = "full_attention"
    second = dflash if architecture == DFLASH_2 else _DFlash(0)
    rope = raw.rope_parameters or raw.rope_scaling
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
        rope_theta=raw.rope_theta or (rope or {}).get("rope_theta", 10000.0),
        rope_scaling=rope,
        num_target_layers=raw.num_target_layers,
        block_size=dflash.block_size or raw.block_size,
        target_layer_ids=taps,
        mask_token_id=dflash.mask_token_id,
        layer_types=raw.layer_types or (full,) * layers,
        sliding_window=raw.sliding_window,
        is_causal=raw.is_causal,
        final_logit_softcapping=dflash.final_logit_softcapping or raw.final_logit_softcapping or None,
        input_embedding_scale=dflash.input_embedding_scale,
        output_multiplier=dflash.output_multiplier,
        architecture=architecture,
        attention_bias=raw.attention_bias,
        hidden_act=raw.hidden_act,
        conv_kernel_size=second.conv_kernel_size or 0,
        conv_group_size=second.conv_group_size or 0,
        selector_rank=second.selector_rank or 0,
        selector_top_k=second.selector_top_k or 0,
    )


def _contradictions(config: DraftConfig) -> Iterator[str]:
    """What no single field shows, as `field is value, ...`."""
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    if heads % kv_heads:
        yield f"num_key_value_heads is {kv_heads}, which does not divide num_attention_heads {heads}"
    taps, mask = config.target_layer_ids, config.mask_token_id
    if not taps or len(set(taps)) < len(taps):
        yield f"target_layer_ids is {shown(list(taps))}, wanted are different layers"
    elif max(taps) >= config.num_target_layers:
        yield f"target_layer_ids names layer {max(taps)}, but num_target_layers is {config.num_target_layers}"
    if mask >= config.vocab_size:
        yield f"mask_token_id is {mask}, but vocab_size is {config.vocab_size}"
    if len(config.layer_types) != config.num_hidden_layers:
        layers = config.num_hidden_layers
        yield f"layer_types has {len(config.layer_types)} entries, but num_hidden_layers is {layers}"
    if "sliding_attention" in config.layer_types and not config.sliding_window:
        yield "sliding_window is missing, but layer_types has sliding layers"
    if not _positive(config.rope_theta):
        yield f"rope_theta is {shown(config.rope_theta)}, wanted is a number above 0"
    if config.final_logit_softcapping is not None and not _positive(config.final_logit_softcapping):
        yield f"final_logit_softcapping is {shown(config.final_logit_softcapping)}, wanted is a number above 0"
    yield from _rope_contradictions(config.rope_scaling or {})
    if config.architecture == DFLASH_2:
        yield from _second_generation_contradictions(config)


def _second_generation_contradictions(config: DraftConfig) -> Iterator[str]:
    for name in ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"):
        if not getattr(config, name):
            yield f"dflash_config.{name} is missing, which {DFLASH_2} needs"
    if config.conv_group_size and config.hidden_size % config.conv_group_size:
        yield f"conv_group_size is {config.conv_group_size}, which does not divide hidden_size {config.hidden_size}"
    if config.conv_kernel_size > config.block_size:
        yield f"conv_kernel_size is {config.conv_kernel_size}, more than the block's {config.block_size} rows"
    if config.selector_top_k > config.vocab_size:
        yield f"selector_top_k is {config.selector_top_k}, but vocab_size is {config.vocab_size}"


def _rope_contradictions(rope: Mapping[str, Any]) -> Iterator[str]:
    kind = rope.get("type") or rope.get("rope_type", "default")
    if kind not in _ROPE_TYPES:
        yield f"rope_type is {shown(kind)}, known are {', '.join(_ROPE_TYPES)}"
    elif kind in _STRETCHED and not _positive(rope.get("factor")):
        yield f"the RoPE factor is {shown(rope.get('factor'))}, wanted is a number above 0"


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _FAR
