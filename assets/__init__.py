"""Files that ship with Mirror SD, read through `importlib.resources`."""

from importlib.resources import files
from pathlib import Path


def path(name: str) -> Path:
    """The path of the shipped file or folder `name` (for example `demo-draft`)."""
    return Path(str(files(__name__).joinpath(name)))
