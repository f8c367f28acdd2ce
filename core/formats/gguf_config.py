"""GGUF files as Hugging Face would describe them: the config of the model, and its tensors checked."""

from __future__ import annotations

from typing import Any

from core.errors import UnsupportedModel
from core.formats.gguf_header import GgufInfo, damaged
from core.formats.gguf_types import QUANTISED_BITS

_GEMMA3_PERIOD = 6
"""Every sixth layer sees the whole text, the others a window; files do not say so."""
_LARGEST_GEMMA3_LAYERS = 62
"""Gemma 3 27B alone scales its attention by the width of a head's share, not of its keys."""


def gguf_config(info: GgufInfo) -> dict[str, Any]:
    """The model's `config.json`, from a header whose tensors are exactly those that it announces.

    Raises `UnreadableModel` where the header contradicts itself, `UnsupportedModel` for scaled RoPE of llama
    (`rope.scaling.*`, `rope_freqs`), mixtures of experts and partial RoPE.
    """
    config = _config(info)
    _check_tensors(info, config)
    return config


def _config(info: GgufInfo) -> dict[str, Any]:
    kind = info.architecture
    _refuse_unsupported(info, kind)
    hidden = info.integer(f"{kind}.embedding_length")
    heads = info.integer(f"{kind}.attention.head_count")
    kv_heads = info.integer(f"{kind}.attention.head_count_kv", heads)
    head_dim = info.integer(f"{kind}.attention.key_length", max(hidden // heads, 1))
    if heads % kv_heads or head_dim % 2:
        raise damaged(info.path, "its attention heads do not fit together", f"{heads} {kv_heads} {head_dim}")
    for key in (f"{kind}.rope.dimension_count", f"{kind}.attention.value_length"):
        if info.integer(key, head_dim) != head_dim:
            raise _unsupported(info, f"heads of size {head_dim} with {key} {info.integer(key)}")
    if "token_embd.weight" not in info.tensors:
        raise damaged(info.path, "its tensor token_embd.weight is missing")
    layers = info.integer(f"{kind}.block_count")
    if layers > len(info.tensors):  # before anything is made for each layer
        raise damaged(info.path, f"it announces {layers} layers but holds fewer tensors")
    config: dict[str, Any] = {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": info.integer(f"{kind}.feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "rms_norm_eps": info.number(f"{kind}.attention.layer_norm_rms_epsilon"),
        "vocab_size": info.tensors["token_embd.weight"].shape[0],
        "max_position_embeddings": info.context_length,
        "rope_theta": info.number(f"{kind}.rope.freq_base", 1e6 if kind == "gemma3" else 1e4),
        "tie_word_embeddings": "output.weight" not in info.tensors,
    }
    return config | _gemma3(info, config) if kind == "gemma3" else config


def _gemma3(info: GgufInfo, config: dict[str, Any]) -> dict[str, Any]:
    """What Gemma 3 has beyond llama, by llama.cpp's conversion of it."""
    scaling = info.metadata.get("gemma3.rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise _unsupported(info, f"position scaling of type {str(scaling)[:40]}")
    factor = info.number("gemma3.rope.scaling.factor", 1.0)
    largest = config["num_hidden_layers"] == _LARGEST_GEMMA3_LAYERS
    return {
        "model_type": "gemma3_text",
        "sliding_window": info.integer("gemma3.attention.sliding_window"),
        "sliding_window_pattern": _GEMMA3_PERIOD,
        "rope_local_base_freq": info.number("gemma3.rope.freq_base_swa", 1e4),
        "rope_scaling": {"rope_type": "linear", "factor": factor} if scaling == "linear" else None,
        "query_pre_attn_scalar": (
            config["hidden_size"] / config["num_attention_heads"] if largest else config["head_dim"]
        ),
    }


def _refuse_unsupported(info: GgufInfo, kind: str) -> None:
    if info.metadata.get(f"{kind}.expert_count"):
        raise _unsupported(info, "a mixture of experts")
    scaled = kind == "llama" and info.metadata.get("llama.rope.scaling.type", "none") != "none"
    if scaled or "rope_freqs.weight" in info.tensors:
        raise _unsupported(info, "position scaling (RoPE scaling)")
    for key in ("attention.head_count", "attention.head_count_kv", "feed_forward_length"):
        if isinstance(info.metadata.get(f"{kind}.{key}"), list):
            raise _unsupported(info, "layers of different sizes")


def _unsupported(info: GgufInfo, what: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"{info.path.name} uses {what}, which the GGUF reader does not support.", "Choose the model's MLX folder."
    )


def _expected_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor of the file by its GGUF name."""
    hidden, inner, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (config["vocab_size"], hidden),
        "output_norm.weight": (hidden,),
    }
    if not config["tie_word_embeddings"]:
        shapes["output.weight"] = (config["vocab_size"], hidden)
    of_layer: dict[str, tuple[int, ...]] = {
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
    if config["model_type"] == "gemma3_text":
        of_layer |= dict.fromkeys(("post_attention_norm", "post_ffw_norm"), (hidden,))
        of_layer |= dict.fromkeys(("attn_q_norm", "attn_k_norm"), (head_dim,))
    for layer in range(config["num_hidden_layers"]):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in of_layer.items()}
    return shapes


def _check_tensors(info: GgufInfo, config: dict[str, Any]) -> None:
    """The file must hold exactly the tensors that its metadata announces; norms must not be quantised."""
    expected = _expected_shapes(config)
    missing, extra = sorted(expected.keys() - info.tensors.keys()), sorted(info.tensors.keys() - expected.keys())
    if missing or extra:
        what = f"its tensor {missing[0]} is missing" if missing else f"its tensor {extra[0][:80]} does not belong there"
        raise damaged(info.path, what, f"missing {missing[:20]}, extra {extra[:20]}")
    for name, shape in expected.items():
        tensor = info.tensors[name]
        if tensor.shape != shape:
            raise damaged(info.path, f"its tensor {name} has a wrong shape", f"{tensor.shape} instead of {shape}")
        if len(shape) == 1 and tensor.type_name in QUANTISED_BITS:
            raise damaged(info.path, f"its tensor {name} must not be quantised", tensor.type_name)
