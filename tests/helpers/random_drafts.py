"""Random draft folders of any shape, with weights as large as trained ones have, and the same drafts in MLX."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import msgspec
from mlx.utils import tree_flatten

from core.engine.drafter_mlx import DFlashDraft
from core.formats.draft_config import DraftConfig
from helpers.tiny import tiny_config

Weights = dict[str, mx.array]


def random_weights(config: DraftConfig, seed: int = 0, dtype: mx.Dtype = mx.bfloat16) -> Weights:
    """Projections that keep the size of what they get, and norms near one."""
    mx.random.seed(seed)

    def weight(like: mx.array) -> mx.array:
        drawn = mx.random.normal(like.shape)
        return (drawn * like.shape[-1] ** -0.5 if like.ndim > 1 else 1 + 0.2 * drawn).astype(dtype)

    return {name: weight(array) for name, array in tree_flatten(DFlashDraft(config).parameters())}


def write_draft(folder: Path, config: DraftConfig, weights: Weights, shards: int = 1) -> Path:
    """A draft folder in the published format, in one file or several with an index."""
    folder.mkdir(parents=True)
    raw = msgspec.structs.asdict(config)
    inner = ("target_layer_ids", "mask_token_id", "input_embedding_scale", "output_multiplier")
    raw["dflash_config"] = {name: raw.pop(name) for name in inner}
    raw["architectures"] = ["DFlashDraftModel"]
    (folder / "config.json").write_text(json.dumps(raw))
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
