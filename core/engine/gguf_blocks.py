"""The quantised blocks of GGUF files as what they all are: levels, and a scale and a bias for each group of them.

Layouts are those of ggml's `ggml-common.h` (`block_q4_0` and so on). A type with groups of 32 is MLX's own affine
quantisation in another order, so it can stay quantised without loss but that of its scales' type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np

from core.formats.gguf_header import TensorInfo
from core.formats.gguf_types import BLOCKS, QUANTISED_BITS

MLX_GROUP = 32
"""Of all types but Q6_K, whose groups are of 16: MLX has none so small."""


@dataclass(frozen=True)
class Affine:
    """A matrix whose value is level * scale + bias."""

    levels: mx.array
    """[rows, columns] uint8."""
    scales: mx.array
    """[rows, groups] float32."""
    biases: mx.array
    bits: int
    """Of a level."""

    @property
    def group(self) -> int:
        """Columns that share a scale."""
        return self.levels.shape[1] // self.scales.shape[1]

    def packed(self) -> mx.array:
        """[rows, columns * bits / 32] uint32: the levels as MLX packs them, the first one lowest."""
        rows, columns = self.levels.shape
        if self.bits == 8:
            packed = self.levels
        elif self.bits == 4:
            packed = self.levels[:, ::2] | (self.levels[:, 1::2] << 4)
        else:  # eight levels fill whole bytes
            eights = self.levels.reshape(rows, columns // 8, 8).astype(mx.uint64)
            wide = (eights << (self.bits * mx.arange(8, dtype=mx.uint64))).sum(axis=-1, keepdims=True)
            packed = mx.view(wide, mx.uint8)[..., : self.bits].reshape(rows, -1)
        return mx.view(mx.contiguous(packed), mx.uint32)

    def values(self) -> mx.array:
        """[rows, columns] float32. Scales are wide, so that each value is rounded once only."""
        if self.group == MLX_GROUP:
            return mx.dequantize(self.packed(), self.scales, self.biases, group_size=MLX_GROUP, bits=self.bits)
        levels = self.levels.reshape(*self.scales.shape, self.group)
        return (levels * self.scales[..., None] + self.biases[..., None]).reshape(self.levels.shape)


def read_tensor(path: Path, tensor: TensorInfo) -> mx.array | Affine:
    """A tensor of a file whose header was checked: as it is, or as levels where it is quantised."""
    raw = np.memmap(path, np.uint8, "r", tensor.offset, (tensor.size_bytes,))
    if tensor.type_name not in QUANTISED_BITS:
        dtype = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}[tensor.type_name]
        return mx.view(mx.array(raw), dtype).reshape(tensor.shape)
    rows = tensor.shape[0]
    levels, scales, biases = _UNPACK[tensor.type_name](mx.array(raw.reshape(-1, BLOCKS[tensor.type_name][1])))
    bits = QUANTISED_BITS[tensor.type_name]
    return Affine(levels.reshape(rows, -1), scales.reshape(rows, -1), biases.reshape(rows, -1), bits)


_Unpacked = tuple[mx.array, mx.array, mx.array]
"""[blocks, values] levels, [blocks, groups] scales and biases."""


def _half(blocks: mx.array, at: int) -> mx.array:
    """[blocks, 1] float32: the half-precision number at this byte."""
    return mx.view(mx.contiguous(blocks[:, at : at + 2]), mx.float16).astype(mx.float32)


def _nibbles(raw: mx.array) -> mx.array:
    """[blocks, n] bytes to [blocks, 2n]: all low halves, then all high ones."""
    return mx.concatenate([raw & 15, raw >> 4], axis=-1)


def _bits(raw: mx.array) -> mx.array:
    """[blocks, n] bytes to [blocks, 8n]: their bits, the lowest first."""
    return ((raw[..., None] >> mx.arange(8, dtype=mx.uint8)) & 1).reshape(raw.shape[0], -1)


def _q4_0(blocks: mx.array) -> _Unpacked:
    scale = _half(blocks, 0)
    return _nibbles(blocks[:, 2:]), scale, -8 * scale


def _q4_1(blocks: mx.array) -> _Unpacked:
    return _nibbles(blocks[:, 4:]), _half(blocks, 0), _half(blocks, 2)


def _q5_0(blocks: mx.array) -> _Unpacked:
    scale = _half(blocks, 0)
    return _nibbles(blocks[:, 6:]) | (_bits(blocks[:, 2:6]) << 4), scale, -16 * scale


def _q5_1(blocks: mx.array) -> _Unpacked:
    return _nibbles(blocks[:, 8:]) | (_bits(blocks[:, 4:8]) << 4), _half(blocks, 0), _half(blocks, 2)


def _q8_0(blocks: mx.array) -> _Unpacked:
    scale = _half(blocks, 0)
    return blocks[:, 2:] ^ 128, scale, -128 * scale


def _k_scales(blocks: mx.array) -> tuple[mx.array, mx.array]:
    """[blocks, 8] scales and biases of Q4_K and Q5_K: two halves times numbers of 6 bits in 12 bytes."""
    low, middle, high = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = mx.concatenate([low & 63, (high & 15) | ((low >> 6) << 4)], axis=-1)
    minima = mx.concatenate([middle & 63, (high >> 4) | ((middle >> 6) << 4)], axis=-1)
    return _half(blocks, 0) * scales, -(_half(blocks, 2) * minima)


def _k_nibbles(raw: mx.array) -> mx.array:
    """[blocks, 128] bytes to [blocks, 256]: 32 bytes hold 64 values, the low halves first."""
    return _nibbles(raw.reshape(-1, 32)).reshape(-1, 256)


def _q4_k(blocks: mx.array) -> _Unpacked:
    return _k_nibbles(blocks[:, 16:]), *_k_scales(blocks)


def _q5_k(blocks: mx.array) -> _Unpacked:
    # Bit j of byte l belongs to value l of group j.
    fifth = (blocks[:, None, 16:48] >> mx.arange(8, dtype=mx.uint8)[:, None]) & 1
    return _k_nibbles(blocks[:, 48:]) | (fifth.reshape(-1, 256) << 4), *_k_scales(blocks)


def _q6_k(blocks: mx.array) -> _Unpacked:
    low = _nibbles(blocks[:, :128].reshape(-1, 64))
    # Two bits each for values l, l + 32, l + 64, l + 96 of a half block.
    high = (blocks[:, 128:192].reshape(-1, 1, 32) >> mx.array([0, 2, 4, 6], dtype=mx.uint8)[:, None]) & 3
    scale = mx.view(mx.contiguous(blocks[:, 192:208]), mx.int8) * _half(blocks, 208)
    return (low | (high.reshape(-1, 128) << 4)).reshape(-1, 256), scale, -32 * scale


_UNPACK: dict[str, Callable[[mx.array], _Unpacked]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
