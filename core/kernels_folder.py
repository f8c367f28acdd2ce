"""Where prepared kernels of drafts are kept, as the settings say."""

from __future__ import annotations

from pathlib import Path

from core.paths import cache_dir, settings_file
from core.settings_file import read_settings


def kernels_dir() -> Path:
    """The folder of prepared kernels. Created when the first are made. Reads the settings."""
    chosen = read_settings(settings_file()).kernels_folder
    return Path(chosen).expanduser() if chosen else cache_dir() / "kernels"
