"""What a training run keeps on disk: its state, to go on from, and its draft, in the published format."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import msgspec

from core.errors import UnreadableModel
from core.files import replace_file
from core.formats.draft_config import DraftConfig

_KEPT = 2
_PATTERN = re.compile(r"step-(\d+)\.safetensors")


@dataclass(frozen=True)
class State:
    """All that the next step depends on."""

    step: int
    """Steps done."""
    shard: int
    """The shard that the next step reads from, and how many of its conversations are used up."""
    used: int
    arrays: dict[str, mx.array]
    """Weights, averaged weights and the optimiser's state, by name."""


def save_state(folder: Path, state: State) -> None:
    """Write a checkpoint, whole or not at all, and drop all but the newest two."""
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / "partial.safetensors"
    place = {name: str(value) for name, value in vars(state).items() if name != "arrays"}
    mx.save_safetensors(str(scratch), state.arrays, metadata=place)
    scratch.replace(folder / f"step-{state.step:07d}.safetensors")
    for path in _checkpoints(folder)[:-_KEPT]:
        path.unlink()


def newest_state(folder: Path) -> State | None:
    """The newest checkpoint; None where there is none. Raises `UnreadableModel` for a damaged one."""
    found = _checkpoints(folder)
    if not found:
        return None
    try:
        loaded: Any = mx.load(str(found[-1]), return_metadata=True)
        arrays, place = loaded
        return State(int(place["step"]), int(place["shard"]), int(place["used"]), arrays)
    except (RuntimeError, KeyError, ValueError) as error:
        raise UnreadableModel(
            f"The checkpoint {found[-1].name} is damaged.",
            "Delete it: the run goes on from the one before.",
            str(error),
        ) from error


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*.safetensors") if _PATTERN.fullmatch(path.name))


def write_draft(folder: Path, config: DraftConfig, weights: dict[str, mx.array]) -> None:
    """Write a draft as any DFlash loader reads it: config.json, and weights in bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / "config.json", msgspec.json.format(msgspec.json.encode(published_config(config)), indent=1))
    scratch = folder / "partial.safetensors"
    mx.save_safetensors(str(scratch), {name: weight.astype(mx.bfloat16) for name, weight in weights.items()})
    scratch.replace(folder / "model.safetensors")


def published_config(config: DraftConfig) -> dict[str, Any]:
    """The fields of a published config.json."""
    plain = {
        name: getattr(config, name)
        for name in (
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "intermediate_size",
            "vocab_size",
            "rms_norm_eps",
            "rope_theta",
            "rope_scaling",
            "max_position_embeddings",
            "num_target_layers",
            "block_size",
            "layer_types",
        )
    }
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",  # what the loaders of others take the layers from
        **plain,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "attention_bias": False,
        "torch_dtype": "bfloat16",
        "dflash_config": {
            "target_layer_ids": config.target_layer_ids,
            "mask_token_id": config.mask_token_id,
            "block_size": config.block_size,
            "input_embedding_scale": config.input_embedding_scale,
            "output_multiplier": config.output_multiplier,
        },
    }
