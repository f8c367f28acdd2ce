"""Loads llama-type GGUF models into mlx-lm's llama."""

from __future__ import annotations

from pathlib import Path

from mlx_lm.models.llama import Model

from core.engine.gguf_header import GgufInfo


def load_gguf(path: str | Path, *, dequantize: bool) -> tuple[Model, GgufInfo]:
    """The model with all weights evaluated, and the file's header.

    With `dequantize` every weight is float32 (for the CPU). Without, quantised tensors stay as MLX's affine
    quantisation (group 32, 4 or 8 bits) and everything else is float16 (for the GPU).
    Raises `MissingFile`, `UnreadableModel` and `UnsupportedModel`.
    """
    raise NotImplementedError
