"""Loads GGUF models into mlx-lm's classes: llama, and Gemma 3's text model."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn

from core.engine.gguf_blocks import MLX_GROUP, Affine, read_tensor
from core.formats.gguf_config import gguf_config
from core.formats.gguf_header import GgufInfo, read_gguf

_ONCE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_IN_GEMMA3_LAYER = _IN_LAYER | {
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def load_gguf(path: str | Path, *, dequantize: bool) -> tuple[nn.Module, GgufInfo]:
    """The model with all weights evaluated, and the file's header.

    With `dequantize` every weight is float32 (for the CPU). Without, quantised tensors stay as MLX's affine
    quantisation (group 32, 4, 5 or 8 bits) and everything else, Q6_K included, is float16 (for the GPU).
    Raises `MissingFile`, `UnreadableModel` and `UnsupportedModel`, as `gguf_config` does.
    """
    info = read_gguf(path)
    config = gguf_config(info)
    module = import_module(f"mlx_lm.models.{config['model_type']}")
    model = module.Model(module.ModelArgs.from_dict(config))
    weights: dict[str, mx.array] = {}
    quantised: dict[str, int] = {}
    """Bits by module."""
    for name in info.tensors:
        base, tensor = name.removesuffix(".weight"), _tensor(info, name, config)
        place = _place(base, info.architecture)
        if not isinstance(tensor, Affine):
            weights[f"{place}.weight"] = tensor.astype(mx.float32 if dequantize else mx.float16)
        elif dequantize or tensor.group != MLX_GROUP:
            weights[f"{place}.weight"] = tensor.values().astype(mx.float32 if dequantize else mx.float16)
        else:
            quantised[place] = tensor.bits
            weights[f"{place}.weight"] = tensor.packed()
            weights |= {f"{place}.{part}": getattr(tensor, part).astype(mx.float16) for part in ("scales", "biases")}
        # One after the other: what a tensor is made of is freed before the next.
        mx.eval([array for part, array in weights.items() if part.startswith(f"{place}.")])
    weights = model.sanitize(weights)
    if quantised:
        nn.quantize(
            model,
            MLX_GROUP,
            class_predicate=lambda path, _module: (
                {"group_size": MLX_GROUP, "bits": quantised[path]} if path in quantised else False
            ),
        )
    model.load_weights(list(weights.items()), strict=True)
    model.eval()
    mx.eval(model.parameters())
    return model, info


def _tensor(info: GgufInfo, name: str, config: dict[str, Any]) -> mx.array | Affine:
    """A tensor as mlx-lm's class wants it."""
    tensor = read_tensor(info.path, info.tensors[name])
    if info.architecture == "gemma3":
        # Conversion adds the 1 that Gemma's norms add to their weights; so does mlx-lm's class.
        return tensor.astype(mx.float32) - 1 if "norm" in name and isinstance(tensor, mx.array) else tensor
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    if (count := heads.get(name.split(".")[-2])) is None:
        return tensor
    if isinstance(tensor, mx.array):
        return _split_halves(tensor, count)
    levels, scales, biases = (_split_halves(part, count) for part in (tensor.levels, tensor.scales, tensor.biases))
    return Affine(levels, scales, biases, tensor.bits)


def _place(base: str, architecture: str) -> str:
    """`blk.3.attn_q` to `model.layers.3.self_attn.q_proj`."""
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)", base)
    in_layer = _IN_GEMMA3_LAYER if architecture == "gemma3" else _IN_LAYER
    return f"model.layers.{layer[1]}.{in_layer[layer[2]]}" if layer else _ONCE[base]


def _split_halves(rows: mx.array, heads: int) -> mx.array:
    """Undo the row order of llama-type GGUF files, which suits RoPE over neighbouring pairs.

    Per head, row 2i of the file is row i of the head, row 2i+1 is row i + head_dim/2 (`permute` in llama.cpp's
    convert_hf_to_gguf.py, backwards). Rows are outputs, so levels, scales and biases go the same way.
    """
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)
