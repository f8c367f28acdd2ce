"""Models that are on this machine's disk already, in the folders of this and of other programs.

Where others keep models, by their own documents and settings files: the Hugging Face cache (`HF_HUB_CACHE`, `HF_HOME`,
else ~/.cache/huggingface/hub); LM Studio in <home>/models/<owner>/<model>, where <home> stands in
~/.lmstudio-home-pointer, else ~/.cache/lm-studio (older) or ~/.lmstudio, unless its settings.json names a
`downloadsFolder`;
oMLX in ~/.omlx/models and in the folders that its settings.json names (model.model_dir, model.model_dirs).
Checked against folders made by hand, not against these programs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from core.pairs.facts import WEIGHTS

if TYPE_CHECKING:
    from huggingface_hub import CachedRepoInfo

log = logging.getLogger("mirror_sd.pairs")

Program = Literal["Hugging Face cache", "LM Studio", "oMLX"]
_INDEX = "model.safetensors.index.json"


class FoundModel(msgspec.Struct, frozen=True):
    """A model folder or GGUF file whose weights are there."""

    name: str
    """`owner/name` as on the hub."""
    path: str
    program: Program
    revision: str = ""
    """The commit, in the Hugging Face cache."""


def found_models(home: Path | None = None, cache: Path | None = None) -> list[FoundModel]:
    """Everything that is found, the Hugging Face cache first; what is linked from one into another counts once.

    `home` is the user's home folder; where it is given, the environment is not asked. `cache` is the Hugging Face
    cache, where it is another than theirs.
    """
    where = home or Path.home()
    models, seen = [], set()
    for model in (
        *_in_hub_cache(cache or _hub_cache(home)),
        *(model for folder in _lm_studio(where) for model in _in_tree(folder, "LM Studio")),
        *(model for folder in _omlx(where) for model in _in_tree(folder, "oMLX")),
    ):
        real = _marker(Path(model.path)).resolve()
        if real not in seen:
            seen.add(real)
            models.append(model)
    return models


def complete(folder: Path) -> bool:
    """Whether a model folder has a config and all weight files that its index names, or at least one."""
    if not (folder / "config.json").is_file():
        return False
    index = folder / _INDEX
    if not index.is_file():
        return any(file.is_file() for file in folder.glob(WEIGHTS))
    names = _json(index).get("weight_map")
    return isinstance(names, dict) and all((folder / str(name)).is_file() for name in set(names.values()))


def _hub_cache(home: Path | None) -> Path:
    from huggingface_hub import constants  # takes a quarter of a second

    return Path(constants.HF_HUB_CACHE) if home is None else home / ".cache" / "huggingface" / "hub"


def _in_hub_cache(folder: Path) -> Iterator[FoundModel]:
    """The revision `main` of each model, else its newest."""
    from huggingface_hub import scan_cache_dir

    if not folder.is_dir():
        return
    for repo in sorted(scan_cache_dir(folder).repos, key=lambda repo: repo.repo_id):
        if repo.repo_type != "model":
            continue
        for revision in sorted(repo.revisions, key=lambda r: ("main" not in r.refs, -r.last_modified)):
            if complete(revision.snapshot_path):
                path = str(revision.snapshot_path)
                yield FoundModel(repo.repo_id, path, "Hugging Face cache", revision.commit_hash)
                break
        yield from _gguf_files(repo)


def _gguf_files(repo: CachedRepoInfo) -> Iterator[FoundModel]:
    """GGUF files stand for themselves, whatever else their revision lacks."""
    for revision in repo.revisions:
        for file in sorted(revision.files, key=lambda file: file.file_name):
            if file.file_name.endswith(".gguf"):
                name = file.file_path.relative_to(revision.snapshot_path).as_posix()
                path, commit = str(file.file_path), revision.commit_hash
                yield FoundModel(f"{repo.repo_id}/{name}", path, "Hugging Face cache", commit)


def _lm_studio(home: Path) -> list[Path]:
    pointer = home / ".lmstudio-home-pointer"
    named = [Path(pointer.read_text(encoding="utf-8", errors="replace").strip())] if pointer.is_file() else []
    roots = [*named, home / ".cache" / "lm-studio", home / ".lmstudio"]
    folders = []
    for root in roots:
        chosen = _json(root / "settings.json").get("downloadsFolder")
        folders += [Path(chosen)] if isinstance(chosen, str) and chosen else []
        folders.append(root / "models")
    return folders


def _omlx(home: Path) -> list[Path]:
    settings = _json(home / ".omlx" / "settings.json").get("model")
    settings = settings if isinstance(settings, dict) else {}
    several = settings.get("model_dirs")
    named = [*(several if isinstance(several, list) else []), settings.get("model_dir")]
    return [*(Path(name) for name in named if isinstance(name, str) and name), home / ".omlx" / "models"]


def _in_tree(folder: Path, program: Program) -> Iterator[FoundModel]:
    """Models at <folder>/<owner>/<model> or <folder>/<model>: folders, and GGUF files in them."""
    for path in sorted([*folder.glob("*/"), *folder.glob("*/*/")]):
        name = path.relative_to(folder).as_posix()
        if complete(path):
            yield FoundModel(name, str(path), program)
        for file in sorted(path.glob("*.gguf")):
            yield FoundModel(f"{name}/{file.name}", str(file), program)


def _marker(path: Path) -> Path:
    return path / "config.json" if path.is_dir() else path


def _json(path: Path) -> dict[str, Any]:
    """The object in another program's small file; empty where there is none, or it is damaged (and logged)."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.is_file() else {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning("%s cannot be read, its program's default folders are searched: %s", path, error)
        return {}
