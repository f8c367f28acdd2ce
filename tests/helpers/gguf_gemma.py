"""Writes small GGUF files of Gemma 3's kind: two windows and a global layer, and a SentencePiece vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from helpers.gguf_files import TYPE_IDS, Array, Int32, UInt32, tensor_bytes, write_gguf

HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, LAYERS, CONTEXT, WINDOW = 32, 64, 4, 2, 16, 6, 128, 8
EPS, GLOBAL_BASE, LOCAL_BASE = 1e-6, 1e6, 1e4
CONTROLS = ["<pad>", "<eos>", "<bos>", "<unk>"]
DEFINED = ["\n\n", "\n", "  ", "   "]
WORDS = ["▁the", "he", "th", "▁t", "▁the▁", "cat", "at", "ca", "▁c", "▁cat", "aa", "aaa", "Ä", "ll", "lle"]
"""By falling score."""
LETTERS = ["▁", *"abcdefghijklmnopqrstuvwxyz.,!", "Ä"]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


def vocabulary() -> list[tuple[str, float, int]]:
    """Tokens with score and type, as conversion writes them."""
    controls = [(text, -1000.0, UNKNOWN if text == "<unk>" else CONTROL) for text in CONTROLS]
    defined = [(text, -1000.0, USER_DEFINED) for text in DEFINED]
    bytes_ = [(f"<0x{byte:02X}>", -1000.0, BYTE) for byte in range(256)]
    words = [word for word in WORDS if word not in LETTERS]
    scored = [(text, -float(rank), NORMAL) for rank, text in enumerate([*words, *LETTERS])]
    return controls + defined + bytes_ + scored


def metadata() -> dict[str, Any]:
    """What a file of Gemma 3 says about itself."""
    tokens, scores, types = zip(*vocabulary(), strict=True)
    return {
        "general.architecture": "gemma3",
        "general.name": "Tiny Gemma",
        "gemma3.context_length": UInt32(CONTEXT),
        "gemma3.embedding_length": UInt32(HIDDEN),
        "gemma3.block_count": UInt32(LAYERS),
        "gemma3.feed_forward_length": UInt32(INNER),
        "gemma3.attention.head_count": UInt32(HEADS),
        "gemma3.attention.head_count_kv": UInt32(KV_HEADS),
        "gemma3.attention.key_length": UInt32(HEAD_DIM),
        "gemma3.attention.value_length": UInt32(HEAD_DIM),
        "gemma3.attention.sliding_window": UInt32(WINDOW),
        "gemma3.attention.layer_norm_rms_epsilon": EPS,
        "gemma3.rope.freq_base": GLOBAL_BASE,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": list(tokens),
        "tokenizer.ggml.scores": list(scores),
        "tokenizer.ggml.token_type": [Int32(kind) for kind in types],
        "tokenizer.ggml.bos_token_id": UInt32(2),
        "tokenizer.ggml.eos_token_id": UInt32(1),
        "tokenizer.ggml.unknown_token_id": UInt32(3),
        "tokenizer.ggml.padding_token_id": UInt32(0),
        "tokenizer.ggml.add_space_prefix": False,
    }


def weights(seed: int = 0) -> dict[str, Array]:
    """Random float32 weights by GGUF name; norms as files have them, with the 1 added."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(vocabulary()), HIDDEN), "output_norm": (HIDDEN,)}
    for layer in range(LAYERS):
        of_layer: dict[str, tuple[int, ...]] = {
            "attn_q": (HEADS * HEAD_DIM, HIDDEN),
            "attn_k": (KV_HEADS * HEAD_DIM, HIDDEN),
            "attn_v": (KV_HEADS * HEAD_DIM, HIDDEN),
            "attn_output": (HIDDEN, HEADS * HEAD_DIM),
            "ffn_gate": (INNER, HIDDEN),
            "ffn_up": (INNER, HIDDEN),
            "ffn_down": (HIDDEN, INNER),
            "attn_q_norm": (HEAD_DIM,),
            "attn_k_norm": (HEAD_DIM,),
        }
        norms = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
        of_layer |= dict.fromkeys(norms, (HIDDEN,))
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in of_layer.items()}
    return {
        f"{name}.weight": (rng.standard_normal(shape) * 0.3 + ("norm" in name)).astype(np.float32)
        for name, shape in shapes.items()
    }


def write_tiny_gemma(path: Path, type_name: str = "F32", **changes: Any) -> None:
    """Write it with matrices of this type. `changes` replace metadata (`__` for `.`, None removes)."""
    entries = metadata() | {key.replace("__", "."): value for key, value in changes.items()}
    kinds = {name: "F32" if values.ndim == 1 else type_name for name, values in weights().items()}
    tensors = {
        name: (values.shape, TYPE_IDS[kinds[name]], tensor_bytes(values, kinds[name]))
        for name, values in weights().items()
    }
    write_gguf(path, {key: value for key, value in entries.items() if value is not None}, tensors)


def reference_logits(tokens: list[int]) -> Array:
    """[n, vocabulary]: Gemma 3's forward pass, written from its description in plain numpy, in double precision."""
    w = {name.removesuffix(".weight"): values.astype(np.float64) for name, values in weights().items()}
    x = w["token_embd"][tokens] * np.sqrt(HIDDEN)
    for layer in range(LAYERS):
        part = {name.split(".")[2]: values for name, values in w.items() if name.startswith(f"blk.{layer}.")}
        window = CONTEXT if layer % 6 == 5 else WINDOW
        attended = _attention(part, _norm(x, part["attn_norm"]), window)
        x = x + _norm(attended @ part["attn_output"].T, part["post_attention_norm"])
        u = _norm(x, part["ffn_norm"])
        inner = _gelu(u @ part["ffn_gate"].T) * (u @ part["ffn_up"].T)
        x = x + _norm(inner @ part["ffn_down"].T, part["post_ffw_norm"])
    return _norm(x, w["output_norm"]) @ w["token_embd"].T


def _attention(part: dict[str, Array], u: Array, window: int) -> Array:
    rows = len(u)
    base = GLOBAL_BASE if window == CONTEXT else LOCAL_BASE
    q = _rope(_norm((u @ part["attn_q"].T).reshape(rows, HEADS, HEAD_DIM), part["attn_q_norm"]), base)
    k = _rope(_norm((u @ part["attn_k"].T).reshape(rows, KV_HEADS, HEAD_DIM), part["attn_k_norm"]), base)
    v = (u @ part["attn_v"].T).reshape(rows, KV_HEADS, HEAD_DIM)
    result = np.empty_like(q)
    for i in range(rows):
        first = max(0, i + 1 - window)
        for head in range(HEADS):
            shared = head * KV_HEADS // HEADS
            scores = k[first : i + 1, shared] @ q[i, head] / np.sqrt(HEAD_DIM)
            shares = np.exp(scores - scores.max())
            result[i, head] = shares / shares.sum() @ v[first : i + 1, shared]
    return result.reshape(rows, -1)


def _norm(x: Array, weight: Array) -> Array:
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + EPS) * weight


def _rope(x: Array, base: float) -> Array:
    """[rows, heads, HEAD_DIM], the halves of each head turned against each other."""
    half = HEAD_DIM // 2
    angles = np.arange(len(x))[:, None, None] * base ** (-np.arange(half) / half)
    left, right = x[..., :half], x[..., half:]
    return np.concatenate(
        [left * np.cos(angles) - right * np.sin(angles), right * np.cos(angles) + left * np.sin(angles)], -1
    )


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def sentencepiece(vocabulary: Iterable[tuple[str, float, int]], *, space_before: bool) -> SentencePieceProcessor:
    """SentencePiece itself, with a vocabulary that begins with `CONTROLS`."""
    proto = ModelProto()
    for text, score, kind in vocabulary:
        proto.pieces.add(piece=text.replace(" ", "▁"), score=score, type=kind)
    trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
    trainer.model_type, trainer.byte_fallback, trainer.vocab_size = 2, True, len(proto.pieces)
    for index, (role, text) in enumerate(zip(("pad", "eos", "bos", "unk"), CONTROLS, strict=True)):
        setattr(trainer, f"{role}_id", index)
        setattr(trainer, f"{role}_piece", text)
    normalizer.name, normalizer.add_dummy_prefix = "identity", space_before
    normalizer.remove_extra_whitespaces, normalizer.escape_whitespaces = False, True
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(proto.SerializeToString())
    return processor
