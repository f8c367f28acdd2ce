"""Random draft folders of any shape, with weights as large as trained ones have, and the same drafts in MLX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import msgspec
from mlx.utils import tree_flatten

from core.engine.drafter_mlx import DFlashDraft
from core.formats.draft_config import DFLASH_2, DraftConfig
from helpers.tiny import tiny_config

Weights = dict[str, mx.array]
SECOND = {
    "architecture": DFLASH_2,
    "conv_kernel_size": 2,
    "conv_group_size": 4,
    "selector_rank": 12,
    "selector_top_k": 16,
}
"""What makes a small draft one of the second generation."""
_INNER = (
    "target_layer_ids",
    "mask_token_id",
    "input_embedding_scale",
    "output_multiplier",
    "conv_kernel_size",
    "conv_group_size",
    "selector_rank",
    "selector_top_k",
)


def random_weights(config: DraftConfig, seed: int = 0, dtype: mx.Dtype = mx.bfloat16) -> Weights:
    """Projections that keep the size of what they get, norms and the bases of convolutions near one, small biases."""
    mx.random.seed(seed)

    def weight(name: str, like: mx.array) -> mx.array:
        drawn = mx.random.normal(like.shape)
        if name.endswith(".bias"):
            return (0.3 * drawn).astype(dtype)
        return (drawn * like.shape[-1] ** -0.5 if like.ndim == 2 else 1 + 0.2 * drawn).astype(dtype)

    return {name: weight(name, array) for name, array in tree_flatten(DFlashDraft(config).parameters())}


def packed(weights: Weights, bits: int = 8, group_size: int = 32) -> Weights:
    """The same with all matrices of linear layers packed as MLX does it."""
    found: Weights = {}
    for name, array in weights.items():
        module = name.removesuffix(".weight")
        if array.ndim == 2 and module != name:
            parts = mx.quantize(array, group_size, bits)
            found |= {
                f"{module}.{part}": each for part, each in zip(("weight", "scales", "biases"), parts, strict=True)
            }
        else:
            found[name] = array
    return found


def unpacked(weights: Weights, bits: int = 8, group_size: int = 32) -> Weights:
    """What `packed` weights stand for, in float32."""
    found: Weights = {}
    for name, array in weights.items():
        module = name.removesuffix(".weight")
        if array.dtype == mx.uint32:
            scales, biases = (weights[f"{module}.{part}"].astype(mx.float32) for part in ("scales", "biases"))
            found[name] = mx.dequantize(array, scales, biases, group_size, bits)
        elif not name.endswith((".scales", ".biases")):
            found[name] = array
    return found


def published_form(config: DraftConfig) -> dict[str, Any]:
    """The fields as they stand in a `config.json`."""
    raw = msgspec.structs.asdict(config)
    inner = [name for name in _INNER if raw[name]]
    raw["dflash_config"] = {name: raw[name] for name in inner}
    raw["architectures"] = [raw["architecture"]]
    return {name: value for name, value in raw.items() if name not in _INNER}


def write_draft(folder: Path, config: DraftConfig, weights: Weights, shards: int = 1) -> Path:
    """A draft folder in the published format, in one file or several with an index."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(published_form(config)))
    if shards == 1:
        mx.save_safetensors(str(folder / "model.safetensors"), weights)
        return folder
    names = [f"model-{shard + 1:05}-of-{shards:05}.safetensors" for shard in range(shards)]
    places = {tensor: names[i % shards] for i, tensor in enumerate(sorted(weights))}
    for name in names:
        mx.save_safetensors(str(folder / name), {t: weights[t] for t, place in places.items() if place == name})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def mlx_draft(config: DraftConfig, weights: Weights) -> DFlashDraft:
    """The draft in float32."""
    draft = DFlashDraft(config)
    draft.load_weights([(name, array.astype(mx.float32)) for name, array in weights.items()])
    mx.eval(draft.parameters())
    return draft


def small_draft(folder: Path, **changes: object) -> Path:
    """A draft folder of a few kilobytes."""
    config = tiny_config(**changes)
    return write_draft(folder, config, random_weights(config))
