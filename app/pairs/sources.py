"""Where the picker's pairs come from: the catalog, the disk, the hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.errors import Problem
from core.hub.retry import Patience
from core.hub.settings import HubSettings, hub_settings
from core.pairs.catalog import Catalog, load_catalog
from core.pairs.found import FoundModel, found_models
from core.pairs.listing import PairRow, list_pairs
from core.pairs.memory import NO_LIMITS, MemoryLimits
from core.paths import settings_file
from core.settings_file import SettingsFile


@dataclass(frozen=True)
class PairSources:
    """One machine's sources."""

    hub: HubSettings
    home: Path | None = None
    """Another home folder than the user's."""
    catalog_folder: Path | None = None
    """Another folder for a newer catalog than that of the settings."""
    patience: Patience | None = None
    """Other waits than usual."""
    limits: MemoryLimits = NO_LIMITS
    """What the settings allow."""


@dataclass(frozen=True)
class Listing:
    """What the sources held when they were read."""

    catalog: Catalog
    rows: tuple[PairRow, ...]
    found: tuple[FoundModel, ...]
    problem: Problem | None
    """What is wrong with the user's own catalog."""


def user_sources() -> PairSources:
    """As the settings and the environment say. Reads a file."""
    file = SettingsFile(settings_file())
    file.load()  # what is wrong with the file, the settings tell
    return PairSources(hub_settings(file.settings), limits=MemoryLimits.of(file.settings))


def read_listing(sources: PairSources, held_bytes: int) -> Listing:
    """Read all sources but the hub; takes some tenths of a second. `held_bytes`: what the loaded pair would free."""
    loaded = load_catalog(sources.catalog_folder)
    found = tuple(found_models(sources.home, sources.hub.cache_dir))
    rows = tuple(list_pairs(loaded.catalog, found, held_bytes=held_bytes, limits=sources.limits))
    return Listing(loaded.catalog, rows, found, loaded.problem)
