"""Runs `.mlpackage` folders in numpy, on any system: an independent judge of the programs that `ane` writes.

It reads the model with the protobuf classes of coremltools and the weights with a reader of its own. Every operation
computes in float32, its result is rounded to the declared type, and its shape must be the declared one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from coremltools.proto import Model_pb2

Arrays = dict[str, Any]
DTYPES: dict[int, Any] = {1: np.bool_, 2: np.str_, 10: np.float16, 23: np.int32, 31: np.uint8}
"""By MIL's code of a data type."""
BLOB_DTYPES: dict[int, Any] = {1: np.float16, 3: np.uint8}
"""By the blob file's code, which is another."""


class Package:
    """A package, read and checked. `run` evaluates its program."""

    def __init__(self, folder: Path) -> None:
        manifest = json.loads((folder / "Manifest.json").read_text())
        items = manifest["itemInfoEntries"]
        for item in items.values():
            assert (folder / "Data" / item["path"]).exists(), item
        model = folder / "Data" / items[manifest["rootModelIdentifier"]]["path"]
        self.spec = Model_pb2.Model()
        self.spec.ParseFromString(model.read_bytes())
        self._blobs = (model.parent / "weights/weight.bin").read_bytes()
        function = self.spec.mlProgram.functions["main"]
        self.block = function.block_specializations[function.opset]
        self.inputs = {value.name: declared(value.type) for value in function.inputs}
        self._weights: Arrays = {}

    def run(self, **inputs: Any) -> Arrays:
        """Every value of the program by name, inputs and intermediate ones included."""
        assert set(inputs) == set(self.inputs)
        values: Arrays = {}
        for name, (dtype, shape) in self.inputs.items():
            values[name] = np.asarray(inputs[name]).astype(dtype)
            assert values[name].shape == shape, name
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for operation in self.block.operations:
                self._step(operation, values)
        return values

    def run_weights(self) -> Arrays:
        """The values of the program's constants by name."""
        values: Arrays = {}
        for operation in self.block.operations:
            if operation.type.startswith("const"):
                self._step(operation, values)
        return values

    @property
    def outputs(self) -> list[str]:
        """Names of what the caller of the program gets."""
        return list(self.block.outputs)

    def _step(self, operation: Any, values: Arrays) -> None:
        first = operation.outputs[0].name
        if first in self._weights:
            values[first] = self._weights[first]
            return
        arguments = {name: self._value(value) for name, value in operation.attributes.items()}
        for name, argument in operation.inputs.items():
            bound = [values[binding.name] for binding in argument.arguments]
            arguments[name] = bound if name == "values" else bound[0]
        results = OPERATIONS[operation.type](arguments)
        for output, result in zip(operation.outputs, results if isinstance(results, list) else [results], strict=True):
            dtype, shape = declared(output.type)
            values[output.name] = np.asarray(result).astype(dtype)
            assert values[output.name].shape == shape, (operation.type, output.name)
        if operation.type.startswith("const"):
            self._weights[first] = values[first]

    def _value(self, value: Any) -> Any:
        dtype, shape = declared(value.type)
        if value.WhichOneof("value") == "blobFileValue":
            assert value.blobFileValue.fileName == "@model_path/weights/weight.bin"
            return self._blob(value.blobFileValue.offset, dtype).reshape(shape)
        tensor = value.immediateValue.tensor
        kind = tensor.WhichOneof("value")
        held = getattr(tensor, kind).values
        if kind == "bytes":
            return np.frombuffer(held, dtype).reshape(shape)
        return np.array(list(held), dtype).reshape(shape)

    def _blob(self, offset: int, dtype: Any) -> Any:
        count, version = struct.unpack_from("<II", self._blobs)
        sentinel, code, size, start = struct.unpack_from("<IIQQ", self._blobs, offset)
        assert (version, sentinel, BLOB_DTYPES[code]) == (2, 0xDEADBEEF, dtype)
        assert count > 0
        assert offset % 64 == 0
        assert start == offset + 64
        assert start + size <= len(self._blobs)
        return np.frombuffer(self._blobs, dtype, size // np.dtype(dtype).itemsize, start)


def declared(value_type: Any) -> tuple[Any, tuple[int, ...]]:
    """Type and shape that a program gives a value."""
    tensor = value_type.tensorType
    assert tensor.rank == len(tensor.dimensions)
    return DTYPES[tensor.dataType], tuple(dimension.constant.size for dimension in tensor.dimensions)


def _float(array: Any) -> Any:
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _dequantize(a: Arrays) -> Any:
    """(data - zero point) x scale, one scale for each index of the axis."""
    data = a["quantized_data"].astype(np.float32) - np.float32(a["zero_point"])
    along = [1] * data.ndim
    along[int(a["axis"])] = -1
    return data * _float(a["scale"]).reshape(along)


def _conv(a: Arrays) -> Any:
    """1x1, as a product of matrices."""
    assert (str(a["pad_type"]), int(a["groups"]), a["weight"].shape[2:]) == ("valid", 1, (1, 1))
    assert not a["pad"].any()
    assert (np.concatenate([a["strides"], a["dilations"]]) == 1).all()
    x, weight = _float(a["x"]), _float(a["weight"])
    return (weight[:, :, 0, 0] @ x.reshape(x.shape[1], -1)).reshape(1, -1, *x.shape[2:])


def _matmul(a: Arrays) -> Any:
    x, y = _float(a["x"]), _float(a["y"])
    assert not a["transpose_y"]
    return (x.swapaxes(-1, -2) if a["transpose_x"] else x) @ y


def _softmax(a: Arrays) -> Any:
    x, axis = _float(a["x"]), int(a["axis"])
    raised = np.exp(x - x.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


def _reduce(function: Callable[..., Any]) -> Callable[[Arrays], Any]:
    return lambda a: function(_float(a["x"]), axis=tuple(a["axes"]), keepdims=bool(a["keep_dims"]))


def _binary(function: Callable[..., Any]) -> Callable[[Arrays], Any]:
    return lambda a: function(_float(a["x"]), _float(a["y"]))


def _concat(a: Arrays) -> Any:
    assert not a["interleave"]
    return np.concatenate(a["values"], axis=int(a["axis"]))


OPERATIONS: Mapping[str, Callable[[Arrays], Any]] = {
    "const": lambda a: a["val"],
    "constexpr_affine_dequantize": _dequantize,
    "conv": _conv,
    "matmul": _matmul,
    "softmax": _softmax,
    "reduce_mean": _reduce(np.mean),
    "reduce_max": _reduce(np.max),
    "add": _binary(np.add),
    "sub": _binary(np.subtract),
    "mul": _binary(np.multiply),
    "real_div": _binary(np.divide),
    "pow": _binary(np.power),
    "abs": lambda a: np.abs(a["x"]),
    "silu": lambda a: _float(a["x"]) / (1 + np.exp(-_float(a["x"]))),
    "reshape": lambda a: a["x"].reshape(tuple(a["shape"])),
    "split": lambda a: np.split(a["x"], np.cumsum(a["split_sizes"])[:-1], axis=int(a["axis"])),
    "concat": _concat,
}
