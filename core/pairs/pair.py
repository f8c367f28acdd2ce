"""What the engine loads: a target and its draft, by place on disk."""

from __future__ import annotations

import msgspec


class Pair(msgspec.Struct, frozen=True):
    """A target and its draft, by place on disk. Without a draft only plain decoding is possible.

    Where models come from (the catalog, the hub, other programs' folders) ends before this: the engine gets paths.
    """

    name: str
    target: str
    """Path of a GGUF file or of a Hugging Face model folder."""
    draft: str | None
    """Path of a DFlash draft folder (config.json and safetensors)."""
