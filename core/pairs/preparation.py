"""What preparing a draft's programs will take: disk by its config, time by what earlier ones took on this machine."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from core.formats.draft_config import DraftConfig
from core.kernels_folder import kernels_dir
from core.pairs.memory import program_bytes
from core.units import size

log = logging.getLogger("mirror_sd.pairs")

MANIFEST = "manifest.json"
_PRECISION = "w8a16"


class _Parts(msgspec.Struct, frozen=True):
    precision: str


class _File(msgspec.Struct, frozen=True):
    bytes: int


class _Manifest(msgspec.Struct, frozen=True):
    """The fields of a kernel folder's manifest that tell what it took (written by `ane`)."""

    parts: _Parts
    files: dict[str, _File]
    seconds: dict[str, float]
    draft: str = ""
    """The folder of the draft that they are made of."""


class Preparation(msgspec.Struct, frozen=True):
    """An estimate before consent."""

    disk_bytes: int
    """The programs once, for one number of columns."""
    seconds: float | None
    """None where no program was ever prepared here."""
    runs: int
    """Earlier preparations that the estimate stands on."""
    kept: bool = False
    """Whether programs of this draft lie in the cache, by its folder. The engine looks closer, and makes them anew
    where its files or the system have changed."""

    @property
    def words(self) -> str:
        """For the user."""
        if self.kept:
            return f"prepared earlier, about {size(self.disk_bytes)} on disk"
        disk = f"about {size(self.disk_bytes)} on disk"
        if self.seconds is None:
            return f"{disk}; time not known yet: nothing was prepared on this machine before"
        time = f"{self.seconds / 60:.0f} minutes" if self.seconds >= 90 else f"{max(self.seconds, 1):.0f} s"
        return f"{disk}; about {time}, by {self.runs} earlier preparation(s) on this machine"


def estimate(draft: DraftConfig, folder: Path | None = None, *, path: str | None = None) -> Preparation:
    """The estimate for a draft, by the kernels kept in `folder` (this machine's). `path` is where the draft is.

    Time is taken to grow with the programs' size: the median of what earlier ones took a byte.
    """
    disk_bytes = program_bytes(draft)
    found = [_manifest(file) for file in sorted((folder or kernels_dir()).glob(f"*/{MANIFEST}"))]
    ours = [made for made in found if made is not None and made.parts.precision == _PRECISION]
    rates = sorted(rate for made in ours if (rate := _seconds_per_byte(made)))
    seconds = rates[len(rates) // 2] * disk_bytes if rates else None
    kept = path is not None and os.path.realpath(path) in {os.path.realpath(made.draft) for made in ours if made.draft}
    return Preparation(disk_bytes, seconds, len(rates), kept)


def _manifest(file: Path) -> _Manifest | None:
    """None where it is no manifest: its kernels are made anew when they are used."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.info("The kernels in %s tell nothing of their preparation: %s", file.parent, error)
        return None


def _seconds_per_byte(made: _Manifest) -> float | None:
    stored_bytes = sum(file.bytes for file in made.files.values())
    return sum(made.seconds.values()) / stored_bytes if stored_bytes > 0 else None
