"""What preparing a draft's programs will take: disk by its config, time by what earlier ones took on this machine."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from core.formats.draft_config import DraftConfig
from core.kernels_folder import kernels_dir
from core.pairs.memory import gigabytes, program_bytes

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


class Preparation(msgspec.Struct, frozen=True):
    """An estimate before consent."""

    disk_bytes: int
    """The programs once, for one number of columns."""
    seconds: float | None
    """None where no program was ever prepared here."""
    runs: int
    """Earlier preparations that the estimate stands on."""

    @property
    def words(self) -> str:
        """For the user."""
        disk = f"about {gigabytes(self.disk_bytes)} on disk"
        if self.seconds is None:
            return f"{disk}; time not known yet: nothing was prepared on this machine before"
        time = f"{self.seconds / 60:.0f} minutes" if self.seconds >= 90 else f"{max(self.seconds, 1):.0f} s"
        return f"{disk}; about {time}, by {self.runs} earlier preparation(s) on this machine"


def estimate(draft: DraftConfig, folder: Path | None = None) -> Preparation:
    """The estimate for a draft, by the kernels that are kept in `folder` (this machine's).

    Time is taken to grow with the programs' size: the median of what earlier ones took a byte.
    """
    disk_bytes = program_bytes(draft)
    manifests = sorted((folder or kernels_dir()).glob(f"*/{MANIFEST}"))
    rates = sorted(rate for path in manifests if (rate := _seconds_per_byte(path)))
    seconds = rates[len(rates) // 2] * disk_bytes if rates else None
    return Preparation(disk_bytes, seconds, len(rates))


def _seconds_per_byte(manifest: Path) -> float | None:
    """None for another precision, and where the manifest is none (its kernels are made anew when they are used)."""
    try:
        made = msgspec.json.decode(manifest.read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        log.info("The kernels in %s tell nothing of their preparation: %s", manifest.parent, error)
        return None
    size = sum(file.bytes for file in made.files.values())
    return sum(made.seconds.values()) / size if size > 0 and made.parts.precision == _PRECISION else None
