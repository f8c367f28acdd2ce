"""The header of a GGUF file: metadata and tensor directory, read and checked in pure Python.

MLX maps a GGUF file and trusts its header; a cut-off or damaged one would crash the process. So everything is
checked here first: no read goes beyond the file, no count or length is believed before the bytes are there.
Format: the GGUF specification, versions 2 and 3 (little-endian), in the ggml project's docs/gguf.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TensorInfo:
    """One entry of the tensor directory."""

    name: str
    shape: tuple[int, ...]
    """Row-major: a matrix is (outputs, inputs)."""
    type_name: str
    """F32, F16, Q4_0, Q4_1 or Q8_0."""
    offset: int
    """In bytes from the start of the file."""
    size_bytes: int


@dataclass(frozen=True)
class GgufInfo:
    """A checked header."""

    path: Path
    metadata: Mapping[str, object]
    """Python values: int, float, bool, str, or a list of one of these."""
    tensors: Mapping[str, TensorInfo]

    @property
    def name(self) -> str:
        """What the file calls the model, else the file's own name."""
        raise NotImplementedError

    @property
    def context_length(self) -> int:
        """Positions the model was trained for."""
        raise NotImplementedError


def read_gguf(path: str | Path) -> GgufInfo:
    """Read and check the header; touches no tensor data.

    Raises `MissingFile`, `UnreadableModel` (cut off, damaged, not GGUF) and `UnsupportedModel` (a version or a
    tensor type that is not supported).
    """
    raise NotImplementedError
