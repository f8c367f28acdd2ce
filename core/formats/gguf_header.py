"""The header of a GGUF file: metadata and tensor directory, read and checked in pure Python.

MLX maps a GGUF file and trusts its header; a cut-off or damaged one would crash the process. So everything is
checked here first: no read goes beyond the file, no count or length is believed before the bytes are there.
Format: the GGUF specification, versions 2 and 3 (little-endian), in the ggml project's docs/gguf.md.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from core.errors import MissingFile, UnreadableModel, UnsupportedModel
from core.formats import gguf_types

# Limits far above any real file (a vocabulary of 260,000 tokens makes a header of about 15 MB): a hostile file
# must not make us allocate more than a small multiple of them.
_MAX_HEADER_BYTES = 64 * 1024 * 1024
_MAX_STRING_BYTES = 16 * 1024 * 1024
_MAX_ENTRIES = 1 << 16
_MAX_ITEMS = 1 << 22
_MAX_DIMENSIONS = 4

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_UINT64 = struct.Struct("<Q")

ARCHITECTURES = ("llama", "gemma3")


@dataclass(frozen=True)
class TensorInfo:
    """One entry of the tensor directory."""

    name: str
    shape: tuple[int, ...]
    """Row-major: a matrix is (outputs, inputs)."""
    type_name: str
    """One of `gguf_types.BLOCKS`."""
    offset: int
    """In bytes from the start of the file."""
    size_bytes: int


@dataclass(frozen=True)
class GgufInfo:
    """A checked header of a model of one of `ARCHITECTURES`."""

    path: Path
    metadata: Mapping[str, object]
    """Python values: int, float, bool, str, or a list of one of these."""
    tensors: Mapping[str, TensorInfo]

    @property
    def name(self) -> str:
        """What the file calls the model, else the file's own name."""
        name = self.metadata.get("general.name")
        return name if isinstance(name, str) and name else self.path.stem

    @property
    def architecture(self) -> str:
        """One of `ARCHITECTURES`: the first part of the names of entries about the model."""
        return self.string("general.architecture")

    @property
    def context_length(self) -> int:
        """Positions the model was trained for."""
        return self.integer(f"{self.architecture}.context_length")

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number above 0. Raises `UnreadableModel` where it is missing without default, or not one."""
        value = self.metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            self._refuse(key, "a whole number above 0")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number above 0. Raises as `integer` does."""
        value = self.metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            self._refuse(key, "a number above 0")
        return value

    def string(self, key: str, default: str | None = None) -> str:
        """A text. Raises as `integer` does."""
        value = self.metadata.get(key, default)
        if not isinstance(value, str):
            self._refuse(key, "a text")
        return value

    def strings(self, key: str) -> list[str]:
        """A list of texts. Raises as `integer` does."""
        value = self.metadata.get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._refuse(key, "a list of texts")
        return value

    def _refuse(self, key: str, wanted: str) -> NoReturn:
        found = repr(self.metadata.get(key, "nothing"))[:80]
        raise damaged(self.path, f"its entry {key} is not {wanted}", f"found {found}")


def damaged(path: Path, what: str, detail: str = "") -> UnreadableModel:
    """The error for a file that contradicts itself."""
    return UnreadableModel(
        f"The model file {path.name} is damaged: {what}.", "Download the file again.", f"{path}: {detail or what}"
    )


def read_gguf(path: str | Path) -> GgufInfo:
    """Read and check the header of a model of one of `ARCHITECTURES`; touches no tensor data.

    Raises `MissingFile`, `UnreadableModel` (cut off, damaged, not GGUF) and `UnsupportedModel` (another
    architecture, version or tensor type).
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFile(f"The model file {path} does not exist.", "Check the path.")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Walk(path, data).header()
    except (OSError, ValueError) as error:  # mmap refuses an empty file with ValueError
        raise UnreadableModel(
            f"The model file {path.name} cannot be read.", "Check its size and permissions.", f"{path}: {error}"
        ) from error


class _Walk:
    """One pass over a header. `_at` is the position of the next byte."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._size = len(data)
        self._end = min(self._size, _MAX_HEADER_BYTES)
        self._at = 0

    def header(self) -> GgufInfo:
        if self._data[:4] != b"GGUF":
            raise UnreadableModel(
                f"{self._path.name} is not a GGUF model file.", "Choose a .gguf file.", f"starts {self._data[:4]!r}"
            )
        self._at = 4
        version = self._scalar("I")
        if version not in (2, 3):
            raise UnsupportedModel(
                f"{self._path.name} has GGUF version {version}; versions 2 and 3 can be read.",
                "Choose a newer file of this model.",
            )
        tensor_count, entry_count = self._count(_MAX_ENTRIES), self._count(_MAX_ENTRIES)
        metadata = self._metadata(entry_count)
        self._check_architecture(metadata)
        tensors = self._directory(tensor_count, self._alignment(metadata))
        return GgufInfo(self._path, metadata, tensors)

    def _metadata(self, count: int) -> dict[str, object]:
        metadata: dict[str, object] = {}
        for _ in range(count):
            key = self._string()
            if key in metadata:
                raise damaged(self._path, f"its entry {key[:80]} stands there twice")
            metadata[key] = self._value()
        return metadata

    def _check_architecture(self, metadata: dict[str, object]) -> None:
        architecture = metadata.get("general.architecture")
        if not isinstance(architecture, str):
            raise damaged(self._path, "it does not say what kind of model it is", "no general.architecture")
        if architecture not in ARCHITECTURES:
            raise UnsupportedModel(
                f"{self._path.name} is a model of type {architecture[:40]!r}; "
                f"of GGUF files {' and '.join(ARCHITECTURES)} can be run.",
                "Choose another file, or the model's MLX folder.",
            )

    def _alignment(self, metadata: dict[str, object]) -> int:
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 8 <= alignment <= 1 << 16 or alignment % 8:
            raise damaged(self._path, "its alignment is impossible", repr(alignment)[:80])
        return alignment

    def _directory(self, count: int, alignment: int) -> dict[str, TensorInfo]:
        entries = [self._entry() for _ in range(count)]
        data_start = -(-self._at // alignment) * alignment
        tensors: dict[str, TensorInfo] = {}
        for name, shape, type_name, relative in entries:
            if name in tensors:
                raise damaged(self._path, f"its tensor {name[:80]} stands there twice")
            if relative % alignment:
                raise damaged(self._path, f"its tensor {name[:80]} does not begin at a multiple of {alignment} bytes")
            values, size = gguf_types.BLOCKS[type_name]
            tensor = TensorInfo(name, shape, type_name, data_start + relative, math.prod(shape) // values * size)
            if tensor.offset + tensor.size_bytes > self._size:
                self._cut_off(f"in its tensor {name[:80]}", tensor.offset + tensor.size_bytes)
            tensors[name] = tensor
        return tensors

    def _entry(self) -> tuple[str, tuple[int, ...], str, int]:
        """Name, shape, type and offset (from the start of the data) of a tensor."""
        name = self._string()
        dimensions = self._scalar("I")
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise damaged(self._path, f"its tensor {name[:80]} has {dimensions} dimensions")
        sizes = [int(self._scalar("Q")) for _ in range(int(dimensions))]
        type_id = int(self._scalar("I"))
        if type_id > gguf_types.MOST:
            raise damaged(self._path, f"its tensor {name[:80]} has an unknown type", f"type {type_id}")
        type_name = gguf_types.NAMES.get(type_id)
        if type_name is None:
            found = gguf_types.OTHER_NAMES.get(type_id, f"number {type_id}")
            raise UnsupportedModel(
                f"{self._path.name} holds weights of type {found}; {', '.join(gguf_types.BLOCKS)} can be run.",
                "Choose another quantisation of this model.",
                f"tensor {name}",
            )
        if not all(sizes) or sizes[0] % gguf_types.BLOCKS[type_name][0]:
            raise damaged(self._path, f"its tensor {name[:80]} has an impossible shape", f"{sizes} of {type_name}")
        return name, tuple(reversed(sizes)), type_name, int(self._scalar("Q"))

    def _value(self) -> object:
        kind = int(self._scalar("I"))
        return self._array() if kind == _ARRAY else self._single(kind)

    def _single(self, kind: int) -> object:
        if kind == _STRING:
            return self._string()
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        raise damaged(self._path, "an entry of its header has an unknown type", f"type {kind} at {self._at}")

    def _array(self) -> list[object]:
        kind = int(self._scalar("I"))
        if kind == _STRING:
            return self._strings(self._count(_MAX_ITEMS))
        if kind not in _SCALARS:
            raise damaged(self._path, "a list in its header has an unknown type", f"type {kind} at {self._at}")
        code = _SCALARS[kind]
        count = self._count(_MAX_ITEMS)
        start = self._advance(count * struct.calcsize("<" + code))
        return list(struct.unpack_from(f"<{count}{code}", self._data, start))

    def _strings(self, count: int) -> list[object]:
        """The same as `_string` again and again, but vocabularies are long."""
        data, at, end, unpack = self._data, self._at, self._end, _UINT64.unpack_from
        strings: list[object] = []
        for _ in range(count):
            start = at + 8
            at = start + unpack(data, at)[0] if start <= end else end + 1
            if at > end:
                self._cut_off("in its header", at)
            strings.append(self._text(data[start:at]))
        self._at = at
        return strings

    def _string(self) -> str:
        length = self._count(_MAX_STRING_BYTES)
        start = self._advance(length)
        return self._text(self._data[start : self._at])

    def _text(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise damaged(self._path, "a text in its header is not UTF-8", f"{raw[:40]!r}") from error

    def _scalar(self, code: str) -> int | float | bool:
        start = self._advance(struct.calcsize("<" + code))
        value: int | float | bool = struct.unpack_from("<" + code, self._data, start)[0]
        return value

    def _count(self, most: int) -> int:
        """A 64-bit count or length, believed only up to `most`."""
        count = int(self._scalar("Q"))
        if count > most:
            raise damaged(self._path, "a count in its header is impossible", f"{count} at {self._at - 8}")
        return count

    def _advance(self, size: int) -> int:
        """Step over `size` bytes; returns where they begin."""
        start, self._at = self._at, self._at + size
        if self._at > self._end:
            self._cut_off("in its header", self._at)
        return start

    def _cut_off(self, where: str, wanted: int) -> NoReturn:
        if wanted <= self._size:
            raise damaged(self._path, f"its header is longer than {_MAX_HEADER_BYTES >> 20} MB")
        raise UnreadableModel(
            f"The model file {self._path.name} is cut off: it ends {where}.",
            "Download the file again.",
            f"{self._path}: {self._size} bytes, at least {wanted} wanted",
        )
