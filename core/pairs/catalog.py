"""The pairs that are known: `assets/pairs.toml`, or a newer file of that name in the settings folder.

The catalog tells where models are and what was published about them. Whether a repository exists, is gated, and how
large its files are today, the hub answers when it is asked; nothing here was taken from there.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

import assets
from core.errors import BadCatalog, MirrorError, Problem
from core.formats.draft_config import parse_draft_config
from core.formats.target_config import parse_target_config
from core.pairs.facts import ModelFacts
from core.paths import settings_dir

CATALOG_FILE = "pairs.toml"
_VARIANT = r"(instruct|it|mlx|bf16|fp16|fp8|mxfp4|nvfp4|dwq|gguf|(?:[2-8]|16)bit|q\d(?:0|1|k[sml])?|\.)*"
"""What may follow a model's name without making it another one: precisions and formats."""
_Bytes = Annotated[int, Meta(ge=1, le=1 << 44)]
_Id = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
_Repo = Annotated[str, Meta(pattern=r"^[\w.-]+/[\w.-]+$")]


class KnownTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A target in one precision."""

    id: _Id
    """What a user types: `mirror-sd inspect ID`."""
    precision: str
    """In words, for example `8-bit`."""
    weight_bytes: _Bytes
    """The text model's tensors as they are stored, from their shapes."""
    repo: _Repo
    """Its hub id."""
    revision: str = "main"
    file: str | None = None
    """The one file that it is (GGUF); None for a folder of files."""
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")] | None = None
    """What that file must be."""
    quantization: dict[str, Any] | None = None
    """As MLX writes it into the target's config."""
    download_bytes: _Bytes | None = None
    """All files, where somebody published that; the hub knows better."""


class KnownDraft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The draft of a pair."""

    weight_bytes: _Bytes
    config: dict[str, Any] | None = None
    """The published `config.json`, as far as the rules need it; None where it was not published whole."""
    repo: _Repo | None = None
    """Its hub id; None for the demo draft, which ships with Mirror SD."""
    revision: str = "main"


class KnownPair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A target in its precisions, and the draft that was trained for it."""

    id: _Id
    name: str
    base: str
    """The model that the draft was trained for, as it is called on the hub."""
    good_at: str
    target_config: dict[str, Any]
    """The published `config.json` of the target, as far as the rules and the memory sum need it."""
    draft: KnownDraft
    targets: Annotated[tuple[KnownTarget, ...], Meta(min_length=1)]
    thinking: Literal["off", "on"] | None = None
    """Whether the draft was trained on answers with thinking; None where that is not known."""

    def is_target(self, name: str) -> bool:
        """Whether a model of this name is the base in some precision, or a target of ours; finetunes are not."""
        plain = _plain(name)
        if plain in {_plain(target.repo) for target in self.targets}:
            return True
        return re.fullmatch(f"(meta)?{re.escape(_plain(self.base))}{_VARIANT}", plain) is not None

    def draft_facts(self) -> ModelFacts | None:
        """What the catalog tells of the draft; None where its config is not known."""
        return None if self.draft.config is None else ModelFacts(self.draft.repo or "demo-draft", self.draft.config)

    def target_facts(self, target: KnownTarget) -> ModelFacts:
        """What the catalog tells of the target."""
        quantised = {} if target.quantization is None else {"quantization": target.quantization}
        return ModelFacts(target.repo, {**self.target_config, **quantised})


class Recommendation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A target for machines with at least this much memory."""

    memory_gb: Annotated[float, Meta(gt=0)]
    target: _Id


class Catalog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All known pairs."""

    format: Literal[1]
    version: Annotated[int, Meta(ge=1)]
    """Counts up; the newer of two catalogs is used."""
    pairs: Annotated[tuple[KnownPair, ...], Meta(min_length=1)]
    recommended: tuple[Recommendation, ...]
    """Best first."""

    def find(self, name: str) -> tuple[KnownPair, KnownTarget] | None:
        """The pair and target that a target's id or hub id names."""
        for pair in self.pairs:
            for target in pair.targets:
                if name in (target.id, target.repo):
                    return pair, target
        return None

    def of_draft(self, name: str) -> KnownPair | None:
        """The pair whose draft has this hub id, or whose name ends like this folder's."""
        last = name.rpartition("/")[2]
        repos = {pair.draft.repo.rpartition("/")[2]: pair for pair in self.pairs if pair.draft.repo}
        return repos.get(last)


class LoadedCatalog(msgspec.Struct, frozen=True):
    """The catalog in use, and what was wrong with the user's."""

    catalog: Catalog
    source: str
    """The path of the file that it came from."""
    problem: Problem | None = None


def load_catalog(folder: Path | None = None) -> LoadedCatalog:
    """The newer of the built-in catalog and the one in `folder` (the settings folder).

    A file there that cannot be used is told as `problem`, and the built-in catalog stays.
    """
    shipped = assets.path(CATALOG_FILE)
    built_in = read_catalog(shipped)
    path = (settings_dir() if folder is None else folder) / CATALOG_FILE
    if not path.exists():
        return LoadedCatalog(built_in, str(shipped))
    try:
        own = read_catalog(path)
        if own.version <= built_in.version:
            raise BadCatalog(
                f"{path.name} in the settings folder is version {own.version}, the built-in one is {built_in.version}.",
                "Remove it, or put a newer one there. The built-in catalog is used.",
                str(path),
            )
    except MirrorError as error:
        return LoadedCatalog(built_in, str(shipped), error.problem)
    return LoadedCatalog(own, str(path))


def read_catalog(path: Path) -> Catalog:
    """Read and check a catalog. Raises `BadCatalog`."""
    try:
        catalog = msgspec.convert(tomllib.loads(path.read_bytes().decode()), Catalog)
    except (OSError, ValueError, RecursionError) as error:  # a ValueError: no TOML, no catalog, an endless number
        raise _bad(path, str(error)) from error
    ids = [target.id for pair in catalog.pairs for target in pair.targets]
    doubled = next((i for i in ids if ids.count(i) > 1), None)
    if doubled is not None:
        raise _bad(path, f"the target {doubled} stands there twice")
    unknown = next((r.target for r in catalog.recommended if r.target not in ids), None)
    if unknown is not None:
        raise _bad(path, f"it recommends {unknown}, which is none of its targets")
    for pair in catalog.pairs:
        _check_configs(pair, path)
    return catalog


def _check_configs(pair: KnownPair, path: Path) -> None:
    try:
        if pair.draft.config is not None:
            parse_draft_config(pair.draft.config, pair.id)
        for target in pair.targets:
            parse_target_config(pair.target_facts(target).config, target.id)
    except MirrorError as error:
        raise _bad(path, error.problem.sentence) from error


def _bad(path: Path, what: str) -> BadCatalog:
    return BadCatalog(
        f"The catalog of pairs {path.name} cannot be used: {what.rstrip('.')}.",
        "Repair it, or remove it from the settings folder. The built-in catalog is used.",
        str(path),
    )


def _plain(name: str) -> str:
    """A model's name without its owner, case and separators."""
    return "".join(c for c in name.rpartition("/")[2].lower() if c.isalnum() or c == ".")
