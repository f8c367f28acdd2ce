"""Models by path or hub id, as far as they are on this machine: nothing is downloaded."""

from __future__ import annotations

import re
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from core.errors import MissingFile

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
