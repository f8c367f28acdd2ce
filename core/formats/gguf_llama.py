"""Llama-type GGUF files as Hugging Face would describe them: the config of the model, and its tensors checked."""

from __future__ import annotations

from typing import Any

from core.errors import UnsupportedModel
from core.formats.gguf_header import GgufInfo, damaged

QUANTISED_BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
"""Bits of the quantised tensor types; the others are whole numbers of bytes a value."""


def llama_config(info: GgufInfo) -> dict[str, Any]:
    """The model's `config.json`, from a header whose tensors are exactly those that it announces.

    Raises `UnreadableModel` where the header contradicts itself, `UnsupportedModel` for scaled RoPE
    (`llama.rope.scaling.*`, `rope_freqs`), mixtures of experts and partial RoPE.
    """
    config = _config(info)
    _check_tensors(info, config)
    return config


def _config(info: GgufInfo) -> dict[str, Any]:
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
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": info.integer("llama.feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "rms_norm_eps": info.number("llama.attention.layer_norm_rms_epsilon"),
        "vocab_size": info.tensors["token_embd.weight"].shape[0],
        "max_position_embeddings": info.context_length,
        "rope_theta": info.number("llama.rope.freq_base", 10000.0),
        "tie_word_embeddings": "output.weight" not in info.tensors,
    }


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


def _expected_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor of the file by its GGUF name."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    q, kv = config["num_attention_heads"] * config["head_dim"], config["num_key_value_heads"] * config["head_dim"]
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (config["vocab_size"], hidden),
        "output_norm.weight": (hidden,),
    }
    if not config["tie_word_embeddings"]:
        shapes["output.weight"] = (config["vocab_size"], hidden)
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
