"""How a target's weights are quantised, as its config says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from core.formats.values import impossible, shown

MODES = {
    "affine": ((1, 2, 3, 4, 5, 6, 8), (32, 64, 128)),
    "mxfp4": ((4,), (32,)),
    "mxfp8": ((8,), (32,)),
    "nvfp4": ((4,), (16,)),
}
"""MLX's modes with the bits and group sizes that it has (mlx.core.quantize)."""
_CONVERTED = ("mxfp4", "mxfp8", "awq", "gptq")
"""Formats of others that mlx-lm turns into one of MLX's while loading."""

_LARGEST = 4096


class Quantization(msgspec.Struct, frozen=True):
    """The common form of the weights; single layers may differ from it."""

    bits: int
    """0 where only the method is known."""
    group_size: int
    mode: str
    """One of MLX's modes, or another tool's method."""
    known: bool
    """Whether MLX has this mode with these numbers, or mlx-lm converts it."""

    @property
    def words(self) -> str:
        """For the user, for example `4 bits (affine, groups of 64)`."""
        return f"{self.bits} bits ({self.mode}, groups of {self.group_size})" if self.bits else self.mode


def read_quantization(raw: Mapping[str, Any], name: str) -> Quantization | None:
    """None where the weights are not quantised. Raises `UnreadableModel` where the entry is no object of numbers."""
    text = raw.get("text_config")
    inner = text if isinstance(text, dict) else {}
    entry = next((e for e in (raw.get("quantization"), raw.get("quantization_config")) if e is not None), None)
    entry = inner.get("quantization_config") if entry is None else entry
    if entry is None:
        return None
    if not isinstance(entry, dict):
        raise impossible("model", name, f"quantization is {shown(entry)}, wanted is an object")
    method = entry.get("quant_method")
    if "quantization" not in raw and method is not None:
        return Quantization(0, 0, shown(method).strip("'"), known=method in _CONVERTED)
    bits, group = _number(entry, "bits", name), _number(entry, "group_size", name)
    mode = entry.get("mode", "affine")
    widths, groups = MODES.get(mode, ((), ())) if isinstance(mode, str) else ((), ())
    return Quantization(bits, group, shown(mode).strip("'"), known=bits in widths and group in groups)


def _number(entry: Mapping[str, Any], key: str, name: str) -> int:
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _LARGEST:
        raise impossible("model", name, f"quantization.{key} is {shown(value)}, wanted is a number above 0")
    return value
