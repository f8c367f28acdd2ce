"""Quantised blocks hold what ggml's layouts say, value by value, and MLX's packing keeps it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from core.engine.gguf_blocks import MLX_GROUP, Affine, read_tensor
from core.formats.gguf_header import TensorInfo
from core.formats.gguf_types import BLOCKS, QUANTISED_BITS

ROWS, BLOCKS_A_ROW = 3, 2


def half(raw: bytes, at: int) -> float:
    return struct.unpack_from("<e", raw, at)[0]


def q4_0(raw: bytes, i: int) -> float:
    return half(raw, 0) * ((raw[2 + i % 16] >> 4 * (i // 16) & 15) - 8)


def q4_1(raw: bytes, i: int) -> float:
    return half(raw, 0) * (raw[4 + i % 16] >> 4 * (i // 16) & 15) + half(raw, 2)


def fifth(raw: bytes, at: int, i: int) -> int:
    """Bit i of the 32 that begin at this byte, in the fifth place."""
    return (struct.unpack_from("<I", raw, at)[0] >> i & 1) << 4


def q5_0(raw: bytes, i: int) -> float:
    return half(raw, 0) * (((raw[6 + i % 16] >> 4 * (i // 16) & 15) | fifth(raw, 2, i)) - 16)


def q5_1(raw: bytes, i: int) -> float:
    return half(raw, 0) * ((raw[8 + i % 16] >> 4 * (i // 16) & 15) | fifth(raw, 4, i)) + half(raw, 2)


def q8_0(raw: bytes, i: int) -> float:
    return half(raw, 0) * struct.unpack_from("<b", raw, 2 + i)[0]


def k_scale(raw: bytes, group: int) -> tuple[float, float]:
    """Scale and minimum of a group of 32 values of Q4_K and Q5_K."""
    packed = raw[4:16]
    if group < 4:
        scale, least = packed[group] & 63, packed[group + 4] & 63
    else:
        scale = (packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4
        least = (packed[group + 4] >> 4) | (packed[group] >> 6) << 4
    return half(raw, 0) * scale, half(raw, 2) * least


def k_nibble(raw: bytes, at: int, i: int) -> int:
    return raw[at + 32 * (i // 64) + i % 32] >> 4 * (i // 32 % 2) & 15


def q4_k(raw: bytes, i: int) -> float:
    scale, least = k_scale(raw, i // 32)
    return scale * k_nibble(raw, 16, i) - least


def q5_k(raw: bytes, i: int) -> float:
    scale, least = k_scale(raw, i // 32)
    return scale * (k_nibble(raw, 48, i) | (raw[16 + i % 32] >> i // 32 & 1) << 4) - least


def q6_k(raw: bytes, i: int) -> float:
    part, within = divmod(i, 128)
    quarter, place = divmod(within, 32)
    low = raw[64 * part + 32 * (quarter % 2) + place] >> 4 * (quarter // 2) & 15
    high = raw[128 + 32 * part + place] >> 2 * quarter & 3
    scale = struct.unpack_from("<b", raw, 192 + i // 16)[0]
    return half(raw, 208) * scale * ((low | high << 4) - 32)


VALUE: dict[str, Callable[[bytes, int], float]] = {
    "Q4_0": q4_0,
    "Q4_1": q4_1,
    "Q5_0": q5_0,
    "Q5_1": q5_1,
    "Q8_0": q8_0,
    "Q4_K": q4_k,
    "Q5_K": q5_k,
    "Q6_K": q6_k,
}
HALVES = {"Q8_0": (0,), "Q4_0": (0,), "Q5_0": (0,), "Q6_K": (208,)}
"""Where a block has its half-precision numbers; in the other types at bytes 0 and 2."""


def random_blocks(type_name: str) -> list[bytes]:
    """Blocks whose every bit is random but for the half-precision numbers, which are plain ones."""
    rng = np.random.default_rng(sorted(VALUE).index(type_name))
    blocks = []
    for _ in range(ROWS * BLOCKS_A_ROW):
        raw = bytearray(rng.bytes(BLOCKS[type_name][1]))
        for at in HALVES.get(type_name, (0, 2)):
            struct.pack_into("<e", raw, at, rng.uniform(-0.1, 0.1))
        blocks.append(bytes(raw))
    return blocks


def read(path: Path, type_name: str, blocks: list[bytes]) -> Affine:
    """From a file in which other bytes stand before the tensor."""
    data = b"".join(blocks)
    path.write_bytes(bytes(64) + data)
    shape = (ROWS, BLOCKS_A_ROW * BLOCKS[type_name][0])
    affine = read_tensor(path, TensorInfo("t", shape, type_name, 64, len(data)))
    assert isinstance(affine, Affine)
    return affine


@pytest.mark.parametrize("type_name", sorted(QUANTISED_BITS))
def test_every_value_is_what_the_layout_says(tmp_path: Path, type_name: str) -> None:
    blocks = random_blocks(type_name)
    expected = [[VALUE[type_name](raw, i) for i in range(BLOCKS[type_name][0])] for raw in blocks]
    found = np.array(read(tmp_path / "blocks", type_name, blocks).values())
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.reshape(expected, found.shape), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("type_name", sorted({*QUANTISED_BITS} - {"Q6_K"}))
def test_packed_levels_give_mlx_the_same_values(tmp_path: Path, type_name: str) -> None:
    affine = read(tmp_path / "blocks", type_name, random_blocks(type_name))
    assert affine.group == MLX_GROUP
    levels = np.array(affine.levels).astype(np.float32).reshape(ROWS, -1, MLX_GROUP)
    scales, biases = (np.array(part)[..., None] for part in (affine.scales, affine.biases))
    unpacked = mx.dequantize(
        affine.packed(), affine.scales, affine.biases, group_size=MLX_GROUP, bits=QUANTISED_BITS[type_name]
    )
    np.testing.assert_allclose(np.array(unpacked), (levels * scales + biases).reshape(ROWS, -1), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("type_name", "dtype"), [("F32", mx.float32), ("F16", mx.float16), ("BF16", mx.bfloat16)])
def test_whole_numbers_of_bytes_are_read_as_they_are(tmp_path: Path, type_name: str, dtype: mx.Dtype) -> None:
    values = mx.random.normal((4, 6)).astype(dtype)
    raw = np.array(mx.view(values, mx.uint8)).tobytes()
    (tmp_path / "plain").write_bytes(bytes(32) + raw)
    found = read_tensor(tmp_path / "plain", TensorInfo("t", (4, 6), type_name, 32, len(raw)))
    assert isinstance(found, mx.array)
    assert found.dtype == dtype
    assert mx.array_equal(found, values)
