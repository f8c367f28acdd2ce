"""What is known of a model before it is loaded: its config, its weight files' headers, its tokenizer.

Facts come from a folder or a GGUF file on disk (here), from the catalog's own lines (`catalog`), or from the hub by
ranged requests (`parse_json`, `safetensors_header.parse_header`). What was not read is left out, and nothing that
judges facts asks where they came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from core.errors import MissingFile
from core.formats.draft_config import DFLASH, DFLASH_2
from core.formats.gguf_config import gguf_config
from core.formats.gguf_header import GgufInfo, read_gguf
from core.formats.safetensors_header import TensorFacts, read_header
from core.formats.tokenizer_facts import TokenizerFacts, folder_tokenizer, gguf_tokenizer_facts
from core.formats.values import impossible

WEIGHTS = "*.safetensors"


@dataclass(frozen=True)
class ModelFacts:
    """One model, as far as it was read."""

    name: str
    """What the user calls it: the folder's or file's name, or the hub id."""
    config: Mapping[str, Any]
    """The parsed `config.json`; whatever stands there."""
    tensors: Mapping[str, TensorFacts] | None = None
    """All tensors of all weight files; None where the headers were not read."""
    tokenizer: TokenizerFacts = field(default_factory=TokenizerFacts)
    gated: bool | None = None
    """Whether its files need an agreement on the hub; None where nobody asked."""
    gguf: bool = False

    @property
    def weight_bytes(self) -> int | None:
        """The bytes of all tensors as they are stored; None where the headers were not read."""
        return None if self.tensors is None else sum(tensor.bytes for tensor in self.tensors.values())

    @property
    def is_draft(self) -> bool:
        """Whether the config names a DFlash draft."""
        return self.config.get("architectures") in ([DFLASH], [DFLASH_2])


class FactsReader(Protocol):
    """Reads the facts of a model that is not on this machine's disk."""

    def __call__(self, repo: str, revision: str) -> ModelFacts:
        """The facts of `repo` at `revision`. Raises a `MirrorError` that says why they cannot be had."""
        ...


def read_facts(path: Path, name: str | None = None) -> ModelFacts:
    """The facts of a model folder or a GGUF file; `name` is its hub id, where it has one.

    Raises `MissingFile`, `UnreadableModel` (no JSON, a damaged header), `UnsupportedModel` (a GGUF file of a kind
    that cannot be run).
    """
    if path.is_file():
        return gguf_facts(read_gguf(path), name)
    config_path = path / "config.json"
    if not config_path.is_file():
        raise MissingFile(f"{path} is no model: it holds no config.json.", "Choose a model folder or a GGUF file.")
    name = name or path.name
    config = parse_json(config_path.read_bytes(), name)
    files = sorted(path.glob(WEIGHTS))
    tensors = {name: tensor for file in files for name, tensor in read_header(file).items()}
    return ModelFacts(name, config, tensors, folder_tokenizer(path, config))


def gguf_facts(info: GgufInfo, name: str | None = None) -> ModelFacts:
    """The facts of a GGUF file, its config in Hugging Face's words. Raises as `gguf_config` does."""
    config = gguf_config(info)
    tensors = {name: TensorFacts(t.type_name, t.shape, t.size_bytes) for name, t in info.tensors.items()}
    return ModelFacts(name or info.path.name, config, tensors, gguf_tokenizer_facts(info), gguf=True)


def parse_json(data: bytes, name: str) -> dict[str, Any]:
    """A `config.json`. Raises `UnreadableModel` where it is no JSON object."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise impossible("model", name, str(error)) from error
