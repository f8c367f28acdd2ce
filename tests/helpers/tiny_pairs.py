"""A catalog of tiny pairs, and a hub that has them: real configs and headers, no real weights. Needs no MLX."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from core.formats.draft_config import parse_draft_config
from core.formats.draft_tensors import expected_tensors
from helpers.fake_hub import Repo

TARGET, SECOND, DRAFT = "acme/tiny-4bit", "acme/tiny-bf16", "acme/tiny-draft"
HUGE = "acme/huge-8bit"
HIDDEN, LAYERS, VOCABULARY = 64, 6, 300
TARGET_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 8192,
}
DRAFT_CONFIG: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "hidden_size": HIDDEN,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "num_target_layers": LAYERS,
    "block_size": 8,
    "dflash_config": {"target_layer_ids": [1, 3], "mask_token_id": 5},
}


def safetensors(shapes: dict[str, tuple[int, ...]]) -> bytes:
    """A file of zeros in bfloat16."""
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(at)


def target_files(padding: int = 0) -> dict[str, bytes]:
    """A target; `padding` makes its weights so many bytes larger."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    shapes |= {f"model.layers.{layer}.mlp.up_proj.weight": (128, HIDDEN) for layer in range(LAYERS)}
    shapes |= {"model.norm.weight": (HIDDEN + padding // 2,)}
    return {"config.json": json.dumps(TARGET_CONFIG).encode(), "model.safetensors": safetensors(shapes)}


def draft_files() -> dict[str, bytes]:
    """The draft for it."""
    weights = safetensors(expected_tensors(parse_draft_config(DRAFT_CONFIG, "draft")))
    return {"config.json": json.dumps(DRAFT_CONFIG).encode(), "model.safetensors": weights}


def repos(padding: int = 0) -> dict[str, Repo]:
    """What the hub has."""
    return {TARGET: Repo(target_files(padding)), SECOND: Repo(target_files(2)), DRAFT: Repo(draft_files())}


def write_model(folder: Path, files: dict[str, bytes]) -> Path:
    """A model folder."""
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def write_catalog(folder: Path) -> Path:
    """A catalog with the tiny pair in two precisions, one that fits no machine, and one that cannot be run."""
    folder.mkdir(parents=True, exist_ok=True)
    huge = TARGET_CONFIG | {"num_hidden_layers": 64, "hidden_size": 8192, "intermediate_size": 20000}
    huge_draft = DRAFT_CONFIG | {"hidden_size": 8192, "num_target_layers": 64}
    wrong = DRAFT_CONFIG | {"vocab_size": VOCABULARY + 1}
    text = ["format = 1", "version = 1000", 'recommended = [{ memory_gb = 0.1, target = "tiny-4bit" }]']
    text += _pair("tiny", "Tiny", "Short words.", TARGET_CONFIG, DRAFT_CONFIG, DRAFT)
    text += _target("tiny-4bit", "4-bit", TARGET, 100_000) + _target("tiny-bf16", "bf16", SECOND, 200_000)
    text += _pair("huge", "Huge", "Everything.", huge, huge_draft, "acme/huge-draft")
    text += _target("huge-8bit", "8-bit", HUGE, 4_000_000_000_000)
    text += _pair("wrong", "Wrong", "Nothing.", TARGET_CONFIG, wrong, "acme/wrong-draft")
    text += _target("wrong-4bit", "4-bit", "acme/wrong-4bit", 100_000)
    (folder / "pairs.toml").write_text("\n".join(text))
    return folder


def _pair(name: str, title: str, good_at: str, target: dict[str, Any], draft: dict[str, Any], repo: str) -> list[str]:
    return [
        "[[pairs]]",
        f'id = "{name}"\nname = "{title}"\nbase = "{name}"\ngood_at = "{good_at}"',
        f'[pairs.draft]\nrepo = "{repo}"\nweight_bytes = 100_000',
        f"config = {_inline(draft)}",
        f"[pairs.target_config]\n{_lines(target)}",
    ]


def _target(name: str, precision: str, repo: str, size: int) -> list[str]:
    return ["[[pairs.targets]]", f'id = "{name}"\nprecision = "{precision}"\nrepo = "{repo}"\nweight_bytes = {size}']


def _lines(values: dict[str, Any]) -> str:
    return "\n".join(f"{key} = {_inline(value)}" for key, value in values.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
