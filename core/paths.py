"""Where Mirror SD keeps its files. `MIRROR_SD_HOME` moves them all below one folder."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import PlatformDirs

_DIRS = PlatformDirs("mirror-sd", appauthor=False)


def _folder(name: str, default: str) -> Path:
    home = os.environ.get("MIRROR_SD_HOME")
    path = Path(home) / name if home else Path(default)
    path.mkdir(parents=True, exist_ok=True)
    return path


def cache_dir() -> Path:
    """Files that can be made again: compiled kernels, check results. Created if missing."""
    return _folder("cache", _DIRS.user_cache_dir)


def settings_dir() -> Path:
    """What the user chose, and a newer catalog of pairs (`pairs.toml`) where one was put there. Created if missing."""
    return _folder("settings", _DIRS.user_config_dir)


def state_dir() -> Path:
    """The engine lock and the logs. Created if missing."""
    return _folder("state", _DIRS.user_state_dir)


def chats_file() -> Path:
    """Where the chats are kept; its folder is created if missing."""
    return _folder("data", _DIRS.user_data_dir) / "chats.sqlite3"


def settings_file() -> Path:
    """Where the settings are kept; its folder is created if missing."""
    return _folder("config", _DIRS.user_config_dir) / "settings.json"
