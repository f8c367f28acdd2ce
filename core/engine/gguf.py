"""Loads llama-type GGUF models into mlx-lm's llama."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
from mlx import nn
from mlx_lm.models.llama import Model, ModelArgs

from core.engine.gguf_header import GgufInfo, damaged, read_gguf
from core.errors import UnsupportedModel

_GROUP = 32
_BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
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
    args = _model_args(info)
    _check_tensors(info, args)
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


def _model_args(info: GgufInfo) -> ModelArgs:
    _refuse_unsupported(info)
    hidden = info.integer("llama.embedding_length")
    heads = info.integer("llama.attention.head_count")
    kv_heads = info.integer("llama.attention.head_count_kv", heads)
    head_dim = info.integer("llama.attention.key_length", max(hidden // heads, 1))
    if heads % kv_heads or head_dim % 2:
        raise damaged(info.path, "its attention heads do not fit together", f"{heads} {kv_heads} {head_dim}")
    for key in ("llama.rope.dimension_count", "llama.attention.value_length"):
        if info.integer(key, head_dim) != head_dim:
            raise _unsupported(info, f"heads of size {head_dim} with {key} {info.integer(key)}")
    if "token_embd.weight" not in info.tensors:
        raise damaged(info.path, "its tensor token_embd.weight is missing")
    layers = info.integer("llama.block_count")
    if layers > len(info.tensors):  # before anything is made for each layer
        raise damaged(info.path, f"it announces {layers} layers but holds fewer tensors")
    return ModelArgs(
        model_type="llama",
        hidden_size=hidden,
        num_hidden_layers=layers,
        intermediate_size=info.integer("llama.feed_forward_length"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        rms_norm_eps=info.number("llama.attention.layer_norm_rms_epsilon"),
        vocab_size=info.tensors["token_embd.weight"].shape[0],
        max_position_embeddings=info.context_length,
        rope_theta=info.number("llama.rope.freq_base", 10000.0),
        tie_word_embeddings="output.weight" not in info.tensors,
    )


def _refuse_unsupported(info: GgufInfo) -> None:
    if info.metadata.get("llama.expert_count"):
        raise _unsupported(info, "a mixture of experts")
    if "rope_freqs.weight" in info.tensors or info.metadata.get("llama.rope.scaling.type", "none") != "none":
        raise _unsupported(info, "position scaling (RoPE scaling)")
    for key in ("llama.attention.head_count", "llama.attention.head_count_kv", "llama.feed_forward_length"):
        if isinstance(info.metadata.get(key), list):
            raise _unsupported(info, "layers of different sizes")


def _unsupported(info: GgufInfo, what: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"{info.path.name} uses {what}, which the GGUF reader does not support.", "Choose the model's MLX folder."
    )


def _expected_shapes(args: ModelArgs) -> dict[str, tuple[int, ...]]:
    """Every tensor of the file by its GGUF name."""
    hidden, inner = args.hidden_size, args.intermediate_size
    q, kv = args.num_attention_heads * args.head_dim, args.num_key_value_heads * args.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (args.vocab_size, hidden),
        "output_norm.weight": (hidden,),
    }
    if not args.tie_word_embeddings:
        shapes["output.weight"] = (args.vocab_size, hidden)
    of_layer = {
        "attn_norm": (hidden,),
        "attn_q": (q, hidden),
        "attn_k": (kv, hidden),
        "attn_v": (kv, hidden),
        "attn_output": (hidden, q),
        "ffn_norm": (hidden,),
        "ffn_gate": (inner, hidden),
        "ffn_up": (inner, hidden),
        "ffn_down": (hidden, inner),
    }
    for layer in range(args.num_hidden_layers):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in of_layer.items()}
    return shapes


def _check_tensors(info: GgufInfo, args: ModelArgs) -> None:
    """The file must hold exactly the tensors that its metadata announces; norms must not be quantised."""
    expected = _expected_shapes(args)
    missing, extra = sorted(expected.keys() - info.tensors.keys()), sorted(info.tensors.keys() - expected.keys())
    if missing or extra:
        what = f"its tensor {missing[0]} is missing" if missing else f"its tensor {extra[0][:80]} does not belong there"
        raise damaged(info.path, what, f"missing {missing[:20]}, extra {extra[:20]}")
    for name, shape in expected.items():
        tensor = info.tensors[name]
        if tensor.shape != shape:
            raise damaged(info.path, f"its tensor {name} has a wrong shape", f"{tensor.shape} instead of {shape}")
        if len(shape) == 1 and tensor.type_name in _BITS:
            raise damaged(info.path, f"its tensor {name} must not be quantised", tensor.type_name)


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
        _module_name(name.removesuffix(".weight")): _BITS[tensor.type_name]
        for name, tensor in info.tensors.items()
        if tensor.type_name in _BITS
    }
    return lambda path, _module: {"group_size": _GROUP, "bits": bits[path]} if path in bits else False
