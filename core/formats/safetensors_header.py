"""The header of a safetensors file: names, types and shapes of its tensors, without their data.

Format: 8 bytes little-endian length, then that many bytes of JSON: tensor name to dtype, shape and data_offsets, and
`__metadata__` (huggingface/safetensors, README). Two short reads of a file, or two ranged requests, are enough.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from core.errors import UnreadableModel

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100 * 1024 * 1024  # the format's own limit
_LENGTH = struct.Struct("<Q")
_BITS = {
    **dict.fromkeys(("F64", "I64", "U64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
}
_Size = Annotated[int, Meta(ge=0, le=1 << 48)]


class _Entry(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[_Size, ...]
    data_offsets: tuple[_Size, _Size]


class TensorFacts(msgspec.Struct, frozen=True):
    """What a header tells of one tensor."""

    dtype: str
    """As safetensors writes it: BF16, F16, F32, U32 (packed), U8, ...; in GGUF files Q4_0, Q4_1, Q8_0 too."""
    shape: tuple[int, ...]
    bytes: int


def header_length(first: bytes, name: str) -> int:
    """How many bytes of JSON follow the file's first 8. Raises `UnreadableModel`."""
    if len(first) < LENGTH_BYTES:
        raise _damaged(name, "it is cut off", f"{len(first)} bytes")
    length: int = _LENGTH.unpack_from(first)[0]
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise _damaged(name, "its header has an impossible length", f"{length} bytes")
    return length


def parse_header(data: bytes, name: str) -> dict[str, TensorFacts]:
    """The tensors by name. Raises `UnreadableModel`."""
    try:
        raw = msgspec.json.decode(data, type=dict[str, Any])
        raw.pop("__metadata__", None)
        entries = msgspec.convert(raw, dict[str, _Entry])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(name, "its header is no list of tensors", str(error)) from error
    return {tensor: _facts(tensor, entry, name) for tensor, entry in entries.items()}


def read_header(path: Path) -> dict[str, TensorFacts]:
    """The tensors of a file on disk; its data must be as long as the header says. Raises `UnreadableModel`."""
    try:
        with path.open("rb") as file:
            length = header_length(file.read(LENGTH_BYTES), path.name)
            header = file.read(length)
        size = path.stat().st_size
    except OSError as error:
        raise _damaged(path.name, "it cannot be read", str(error)) from error
    if len(header) < length:
        raise _damaged(path.name, "it is cut off in its header", f"{len(header)} of {length} bytes")
    tensors = parse_header(header, path.name)
    wanted = LENGTH_BYTES + length + sum(tensor.bytes for tensor in tensors.values())
    if size < wanted:
        raise _damaged(path.name, f"it is cut off: it has {size:,} of {wanted:,} bytes", str(path))
    return tensors


def _facts(tensor: str, entry: _Entry, name: str) -> TensorFacts:
    size = entry.data_offsets[1] - entry.data_offsets[0]
    bits = _BITS.get(entry.dtype)
    if size < 0 or (bits is not None and math.prod(entry.shape) * bits != size * 8):
        raise _damaged(
            name,
            f"its tensor {tensor[:80]} has {size:,} bytes, which its shape {list(entry.shape)} of {entry.dtype} is not",
            tensor,
        )
    return TensorFacts(entry.dtype, entry.shape, size)


def _damaged(name: str, what: str, detail: str) -> UnreadableModel:
    return UnreadableModel(f"The model file {name} is damaged: {what}.", "Download the file again.", detail)
