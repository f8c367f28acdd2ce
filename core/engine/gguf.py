"""Loads llama-type GGUF models into mlx-lm's llama."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
from mlx import nn
from mlx_lm.models.llama import Model, ModelArgs

from core.formats.gguf_header import GgufInfo, damaged, read_gguf
from core.formats.gguf_llama import QUANTISED_BITS, llama_config

_GROUP = 32
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


def load_gguf(path: str | Path, *, dequantize: bool) -> tuple[Model, GgufInfo]:
    """The model with all weights evaluated, and the file's header.

    With `dequantize` every weight is float32 (for the CPU). Without, quantised tensors stay as MLX's affine
    quantisation (group 32, 4 or 8 bits) and everything else is float16 (for the GPU).
    Scaled RoPE (`llama.rope.scaling.*`, `rope_freqs`), mixtures of experts and partial RoPE are refused.
    Raises `MissingFile`, `UnreadableModel` and `UnsupportedModel`.
    """
    info = read_gguf(path)
    args = ModelArgs.from_dict(llama_config(info))
    weights = _load_weights(info, args)
    model = Model(args)
    if dequantize:
        weights = _dequantized(weights)
    else:
        weights = {name: _half(array) for name, array in weights.items()}
        nn.quantize(model, _GROUP, class_predicate=_layer_bits(info))
    model.load_weights(list(weights.items()), strict=True)
    model.eval()
    mx.eval(model.parameters())
    return model, info


def _load_weights(info: GgufInfo, args: ModelArgs) -> dict[str, mx.array]:
    """The file's arrays under mlx-lm's names, with Wq and Wk in split-half order."""
    try:
        # The format is named because files in a cache may have names without suffix.
        loaded = mx.load(str(info.path), format="gguf")
    except (RuntimeError, ValueError) as error:
        raise damaged(info.path, "MLX cannot read it", str(error)) from error
    assert isinstance(loaded, dict)
    heads = {"self_attn.q_proj": args.num_attention_heads, "self_attn.k_proj": args.num_key_value_heads}
    weights: dict[str, mx.array] = {}
    for name, array in loaded.items():
        base, _, part = name.rpartition(".")
        module = _module_name(base)
        count = next((n for suffix, n in heads.items() if module.endswith(suffix)), 0)
        weights[f"{module}.{part}"] = _split_halves(array, count) if count else array
    return weights


def _module_name(base: str) -> str:
    """`blk.3.attn_q` to `model.layers.3.self_attn.q_proj`."""
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)", base)
    return f"model.layers.{layer[1]}.{_IN_LAYER[layer[2]]}" if layer else _ONCE[base]


def _split_halves(rows: mx.array, heads: int) -> mx.array:
    """Undo the row order of llama-type GGUF files, which suits RoPE over neighbouring pairs.

    Per head, row 2i of the file is row i of the head, row 2i+1 is row i + head_dim/2 (`permute` in llama.cpp's
    convert_hf_to_gguf.py, backwards). Rows are outputs, so packed weights, scales and biases go the same way.
    """
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _dequantized(weights: dict[str, mx.array]) -> dict[str, mx.array]:
    """Everything in float32. Scales are widened first, so that q * scale + bias is rounded once only."""
    result = {}
    for name, array in weights.items():
        base, _, part = name.rpartition(".")
        if part != "weight":
            continue
        if f"{base}.scales" in weights:
            scales = weights[f"{base}.scales"].astype(mx.float32)
            biases = weights[f"{base}.biases"].astype(mx.float32)
            bits = array.shape[-1] * 32 // (scales.shape[-1] * _GROUP)
            array = mx.dequantize(array, scales, biases, group_size=_GROUP, bits=bits)
        result[name] = array.astype(mx.float32)
    return result


def _half(array: mx.array) -> mx.array:
    return array if array.dtype == mx.uint32 else array.astype(mx.float16)


def _layer_bits(info: GgufInfo) -> Callable[[str, nn.Module], bool | dict[str, int]]:
    """For `nn.quantize`: which modules are quantised, and to how many bits."""
    bits = {
        _module_name(name.removesuffix(".weight")): QUANTISED_BITS[tensor.type_name]
        for name, tensor in info.tensors.items()
        if tensor.type_name in QUANTISED_BITS
    }
    return lambda path, _module: {"group_size": _GROUP, "bits": bits[path]} if path in bits else False
