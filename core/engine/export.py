"""Writes a loaded target as a Hugging Face folder, so that other programs can load the same weights."""

from __future__ import annotations

from pathlib import Path

import msgspec
from mlx_lm.utils import save_config, save_model

from core.engine.target import Target
from core.engine.tokenizer import Tokenizer


def save_target(target: Target, tokenizer: Tokenizer, folder: Path) -> None:
    """Write weights as they are in memory, config and tokenizer. Only for targets built from a GGUF file."""
    save_model(folder, target.model)
    args = target.model.args
    config = {name: value for name, value in vars(args).items() if value is not None}
    config["eos_token_id"] = sorted(tokenizer.eos_ids)
    save_config(msgspec.to_builtins(config), folder / "config.json")
    tokenizer.save(folder)
