"""Where a draft begins: as a copy of the target's last layers, or as another draft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import msgspec
from mlx.utils import tree_flatten

from core.engine.draft_weights import load_draft
from core.engine.drafter_mlx import DFlashDraft
from core.engine.target import Target, plain_weight
from core.engine.tokenizer import Tokenizer
from core.errors import BadRequest, UnsupportedModel
from core.formats.draft_config import DFLASH, DraftConfig, LayerType, published_taps, read_draft_config

LAYERS = 5
TAPS = 5
"""Of a new draft, as in the published ones."""
_FULL: LayerType = "full_attention"


def begin_from_draft(folder: Path, target: Target, block_size: int) -> DFlashDraft:
    """The draft in `folder`, in float32, with this block size. Raises as `load_draft` does, and `BadRequest`."""
    config = read_draft_config(folder)
    layers = range(config.num_hidden_layers)
    if config.architecture != DFLASH or config.attention_bias:
        raise BadRequest("Only drafts of the first generation and without biases can be trained.")
    if config.final_logit_softcapping or any(config.sliding(layer) or config.causal(layer) for layer in layers):
        raise BadRequest("Only drafts with full attention and without a soft cap can be trained.")
    draft = load_draft(folder, target, mx.float32)
    draft.config = msgspec.structs.replace(config, block_size=block_size)
    return draft


def begin_from_target(target: Target, mask_token: int, block_size: int) -> DFlashDraft:
    """A draft made of the target's last layers, whose taps are put on. Raises `UnsupportedModel`.

    K/V projections that read the target's own last features at first; the fc passes on the last tap.
    """
    args = target.model.args
    layers = target.layers[-LAYERS:]
    count = len(target.layers)
    head_dim = int(getattr(args, "head_dim", None) or args.hidden_size // args.num_attention_heads)
    if any(not hasattr(layer, "self_attn") or not hasattr(layer.mlp, "gate_proj") for layer in layers):
        raise UnsupportedModel(
            "Drafts can be trained for llama- and qwen3-like models, which this one is not.", "Choose another target."
        )
    config = DraftConfig(
        hidden_size=args.hidden_size,
        num_hidden_layers=len(layers),
        num_attention_heads=args.num_attention_heads,
        num_key_value_heads=args.num_key_value_heads,
        head_dim=head_dim,
        intermediate_size=args.intermediate_size,
        vocab_size=target.vocab_size,
        rms_norm_eps=args.rms_norm_eps,
        max_position_embeddings=target.context_length,
        rope_theta=args.rope_theta,
        rope_scaling=getattr(args, "rope_scaling", None),
        num_target_layers=count,
        block_size=block_size,
        target_layer_ids=spread_taps(count),
        mask_token_id=mask_token,
        layer_types=(_FULL,) * len(layers),
        sliding_window=None,
        is_causal=None,
        final_logit_softcapping=None,
        input_embedding_scale=1.0,
        output_multiplier=1.0,
    )
    draft = DFlashDraft(config)
    draft.load_weights(_weights_from(draft, target, layers), strict=True)
    target.set_taps(config.target_layer_ids)
    return draft


def unused_token(target: Target, tokenizer: Tokenizer) -> int:
    """A token that no text has, for the masks: one beyond the tokenizer's, else a control token without a use here.

    Raises `BadRequest` where there is none.
    """
    if tokenizer.vocab_size < target.vocab_size:
        return tokenizer.vocab_size
    template = tokenizer.chat_template or ""
    for token in sorted(tokenizer.special_ids - tokenizer.eos_ids, reverse=True):
        if tokenizer.token_text(token) not in template:
            return token
    raise BadRequest("This target has no token to spare for masks.", "Name one with --mask-token.")


def spread_taps(layers: int) -> tuple[int, ...]:
    """The layers that a new draft reads, by the published rule; fewer where the target has too few layers."""
    return tuple(sorted({max(0, tap) for tap in published_taps(layers, TAPS)}))


def _weights_from(draft: DFlashDraft, target: Target, layers: list[Any]) -> list[tuple[str, mx.array]]:
    """All parameters of `draft`: from `layers` of the target, its final norm, and an fc that passes on the last tap."""
    weights: list[tuple[str, mx.array]] = []
    for name, fresh in tree_flatten(draft.parameters()):
        owner, _, path = name.partition(".")
        if owner == "layers":
            index, _, path = path.partition(".")
            weight = _found(layers[int(index)], path.split(".")[:-1], fresh)
        elif owner == "norm":
            weight = _found(target.final_norm, [], fresh)
        else:
            weight = _passing_last_tap(fresh) if owner == "fc" else mx.ones(fresh.shape)
        weights.append((name, weight))
    return weights


def _found(module: Any, path: list[str], fresh: mx.array) -> mx.array:
    """The weight of the part at `path` of a target's module, in float32; ones for a norm that is not there."""
    for part in path:
        if part not in module:
            return mx.ones(fresh.shape)
        module = module[part]
    return plain_weight(module).astype(mx.float32)


def _passing_last_tap(fresh: mx.array) -> mx.array:
    """[hidden, taps x hidden]: the identity on the last tap, nothing from the others."""
    hidden, inputs = fresh.shape
    return mx.eye(hidden, inputs, inputs - hidden)
