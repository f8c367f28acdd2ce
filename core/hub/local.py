"""Models that the disk holds, found without asking the hub."""

from __future__ import annotations

from pathlib import Path

import msgspec

from core.hub.cache import repo_dir, snapshot_dir


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def find_local(cache: Path, repo: str, revision: str = "main") -> Path | None:
    """The folder of a whole model: its config and every file of weights. None where something is missing."""
    if ".." in repo or ".." in revision:
        return None
    ref = repo_dir(cache, repo) / "refs" / revision
    folder = snapshot_dir(cache, repo, ref.read_text().strip() if ref.is_file() else revision)
    if not (folder / "config.json").is_file():
        return None
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return folder if any(path.is_file() for path in folder.glob("*.safetensors")) else None
    try:
        shards = set(msgspec.json.decode(index.read_bytes(), type=_Index).weight_map.values())
    except (msgspec.DecodeError, RecursionError):
        return None
    return folder if all((folder / shard).is_file() for shard in shards) else None
