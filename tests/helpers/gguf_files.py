"""Writes small GGUF files: a tiny random llama with a byte-level tokenizer. Our own writer, made from the format."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, LAYERS, CONTEXT = 64, 96, 4, 2, 16, 2, 128
EPS, ROPE_BASE = 1e-5, 5000.0
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġw o"]
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TYPE_IDS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8}

Array = np.ndarray[Any, np.dtype[Any]]


class UInt32(int):
    """A number that goes into the metadata as uint32."""


class Int32(int):
    """A number that goes into the metadata as int32."""


def byte_alphabet() -> list[str]:
    """GPT-2's 256 characters for the bytes, in the order in which its vocabulary lists them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in printable] + [chr(256 + n) for n in range(256 - len(printable))]


def vocabulary() -> list[str]:
    """Control tokens, bytes, merged tokens."""
    return CONTROLS + byte_alphabet() + [merge.replace(" ", "") for merge in MERGES]


def metadata() -> dict[str, Any]:
    """What a llama-type file says about itself."""
    tokens = vocabulary()
    types = [Int32(3 if token in CONTROLS else 1) for token in tokens]
    return {
        "general.architecture": "llama",
        "general.name": "Tiny",
        "llama.context_length": UInt32(CONTEXT),
        "llama.embedding_length": UInt32(HIDDEN),
        "llama.block_count": UInt32(LAYERS),
        "llama.feed_forward_length": UInt32(INNER),
        "llama.attention.head_count": UInt32(HEADS),
        "llama.attention.head_count_kv": UInt32(KV_HEADS),
        "llama.attention.layer_norm_rms_epsilon": EPS,
        "llama.rope.freq_base": ROPE_BASE,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": UInt32(1),
        "tokenizer.ggml.eos_token_id": UInt32(2),
        "tokenizer.chat_template": TEMPLATE,
    }


def weights(seed: int = 0, tied: bool = True) -> dict[str, Array]:
    """Random float32 weights by GGUF name, Wq and Wk in split-half order."""
    rng = np.random.default_rng(seed)
    shapes = {"token_embd": (len(vocabulary()), HIDDEN), "output_norm": (HIDDEN,)}
    if not tied:
        shapes["output"] = shapes["token_embd"]
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.{name}": shape
            for name, shape in {
                "attn_norm": (HIDDEN,),
                "attn_q": (HEADS * HEAD_DIM, HIDDEN),
                "attn_k": (KV_HEADS * HEAD_DIM, HIDDEN),
                "attn_v": (KV_HEADS * HEAD_DIM, HIDDEN),
                "attn_output": (HIDDEN, HEADS * HEAD_DIM),
                "ffn_norm": (HIDDEN,),
                "ffn_gate": (INNER, HIDDEN),
                "ffn_up": (INNER, HIDDEN),
                "ffn_down": (HIDDEN, INNER),
            }.items()
        }
    return {
        f"{name}.weight": (rng.standard_normal(shape) * 0.2 + ("norm" in name)).astype(np.float32)
        for name, shape in shapes.items()
    }


def interleaved(rows: Array, heads: int) -> Array:
    """The row order of llama-type files: in each head rows i and i + half stand side by side."""
    result = np.empty_like(rows)
    size = len(rows) // heads
    for head in range(heads):
        for i in range(size // 2):
            result[head * size + 2 * i] = rows[head * size + i]
            result[head * size + 2 * i + 1] = rows[head * size + i + size // 2]
    return result


def quantize(values: Array, type_name: str) -> bytes:
    """Blocks of 32 values as ggml lays them out; half-precision scale (and minimum) first."""
    blocks = values.reshape(-1, 32)
    if type_name == "Q8_0":
        scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
        codes = np.round(blocks / scale.astype(np.float32)).astype(np.int8)
        return b"".join(s.tobytes() + c.tobytes() for s, c in zip(scale, codes, strict=True))
    if type_name == "Q4_0":
        extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
        heads = (extreme / -8).astype(np.float16)
        codes = np.clip(np.floor(blocks / heads.astype(np.float32) + 8.5), 0, 15).astype(np.uint8)
    else:
        least, most = blocks.min(1, keepdims=True), blocks.max(1, keepdims=True)
        heads = np.concatenate([(most - least) / 15, least], 1).astype(np.float16)
        step = heads[:, :1].astype(np.float32)
        codes = np.clip(np.floor((blocks - least) / step + 0.5), 0, 15).astype(np.uint8)
    packed = codes[:, :16] | (codes[:, 16:] << 4)
    return b"".join(h.tobytes() + p.tobytes() for h, p in zip(heads, packed, strict=True))


def dequantize(raw: bytes, type_name: str, shape: tuple[int, ...]) -> Array:
    """The float32 values that the blocks stand for: code * scale (Q8_0), (code - 8) * scale, code * scale + minimum."""
    head = {"Q8_0": 2, "Q4_0": 2, "Q4_1": 4}[type_name]
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, head + (32 if type_name == "Q8_0" else 16))
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    body = blocks[:, head:]
    if type_name == "Q8_0":
        return (body.view(np.int8) * scale).reshape(shape)
    codes = np.concatenate([body & 15, body >> 4], 1).astype(np.float32)
    if type_name == "Q4_0":
        return ((codes - 8) * scale).reshape(shape)
    return (codes * scale + blocks[:, 2:4].copy().view(np.float16).astype(np.float32)).reshape(shape)


def tensor_bytes(values: Array, type_name: str) -> bytes:
    """A tensor's data."""
    if type_name in ("F32", "F16"):
        return values.astype(np.float32 if type_name == "F32" else np.float16).tobytes()
    return quantize(values, type_name)


def write_gguf(
    path: Path,
    entries: dict[str, Any],
    tensors: dict[str, tuple[tuple[int, ...], int, bytes]],
    version: int = 3,
) -> int:
    """Write a file of metadata and tensors (row-major shape, type number, data); returns where the data begin."""
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    for key, value in entries.items():
        header += string_bytes(key) + _typed(value)
    body = b""
    for name, (shape, type_id, data) in tensors.items():
        header += string_bytes(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        header += struct.pack("<IQ", type_id, len(body))
        body += data + bytes(-len(data) % 32)
    header += bytes(-len(header) % 32)
    path.write_bytes(header + body)
    return len(header)


def tiny_tensors(type_name: str, seed: int = 0, tied: bool = True) -> dict[str, tuple[tuple[int, ...], int, bytes]]:
    """The tiny llama's tensors: matrices of the given type, norms in F32."""
    tensors = {}
    for name, values in weights(seed, tied).items():
        kind = "F32" if values.ndim == 1 else type_name
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name.split(".")[-2])
        if heads:
            values = interleaved(values, heads)
        tensors[name] = (values.shape, TYPE_IDS[kind], tensor_bytes(values, kind))
    return tensors


def write_tiny(path: Path, type_name: str = "F32", seed: int = 0, tied: bool = True, **changes: Any) -> int:
    """Write the tiny llama; returns where the data begin. `changes` replace metadata (`__` for `.`, None removes)."""
    entries = metadata() | {key.replace("__", "."): value for key, value in changes.items()}
    entries = {key: value for key, value in entries.items() if value is not None}
    return write_gguf(path, entries, tiny_tensors(type_name, seed, tied))


def string_bytes(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _typed(value: Any) -> bytes:
    kind, payload = _payload(value)
    return struct.pack("<I", kind) + payload


def _payload(value: Any) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, Int32):
        return 5, struct.pack("<i", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, string_bytes(value)
    items = [_payload(item) for item in value]
    return 9, struct.pack("<IQ", items[0][0] if items else 8, len(items)) + b"".join(p for _, p in items)
