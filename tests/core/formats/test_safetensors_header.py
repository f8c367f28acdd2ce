"""Headers of safetensors files: what is written is read, and a file that lies is refused."""

from __future__ import annotations

import json
import struct

import mlx.core as mx
import pytest

from core.errors import UnreadableModel
from core.formats.safetensors_header import LENGTH_BYTES, TensorFacts, header_length, parse_header, read_header


@pytest.fixture
def path(tmp_path):
    arrays = {
        "a.weight": mx.zeros((3, 5), mx.bfloat16),
        "b.scales": mx.zeros((2,), mx.float32),
        "c": mx.zeros((4, 2), mx.uint32),
    }
    mx.save_safetensors(str(tmp_path / "model.safetensors"), arrays, {"format": "mlx"})
    return tmp_path / "model.safetensors"


def test_a_written_file_is_read(path):
    assert read_header(path) == {
        "a.weight": TensorFacts("BF16", (3, 5), 30),
        "b.scales": TensorFacts("F32", (2,), 8),
        "c": TensorFacts("U32", (4, 2), 32),
    }


def test_two_short_reads_of_the_beginning_are_enough(path):
    data = path.read_bytes()
    length = header_length(data[:LENGTH_BYTES], "x")
    assert parse_header(data[LENGTH_BYTES : LENGTH_BYTES + length], "x") == read_header(path)


@pytest.mark.parametrize("cut", [0, 7, 20, -1])
def test_a_file_that_is_cut_off_is_refused(path, cut):
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UnreadableModel, match="cut off"):
        read_header(path)


@pytest.mark.parametrize("length", [0, 1, 1 << 40, 2**64 - 1])
def test_an_impossible_length_is_refused_before_anything_is_read(length):
    with pytest.raises(UnreadableModel, match="impossible length"):
        header_length(struct.pack("<Q", length), "x")


@pytest.mark.parametrize(
    "header",
    [
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a": 5}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}',
        b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}',
        json.dumps({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}).encode(),
        json.dumps({"a": {"dtype": "F32", "shape": [10**30], "data_offsets": [0, 8]}}).encode(),
    ],
)
def test_a_header_that_is_none_or_lies_is_refused(header):
    with pytest.raises(UnreadableModel):
        parse_header(header, "x")


def test_types_that_are_not_known_are_kept_as_they_stand():
    header = json.dumps({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}).encode()
    assert parse_header(header, "x") == {"a": TensorFacts("F4", (3,), 2)}
