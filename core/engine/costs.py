"""What steps of a loaded pair cost on this machine, as measured once and kept on the disk."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import msgspec
import psutil

from core.engine.branches import Budget
from core.files import identity, replace_file
from core.machine import chip_name
from core.paths import cache_dir
from core.protocol import Mode

log = logging.getLogger("mirror_sd.costs")


class Costs(msgspec.Struct, frozen=True, dict=True):
    """In milliseconds."""

    verify_ms: tuple[float, ...]
    """Of a pass right behind the start of a text, by rows from 1 on."""
    verify_ms_per_position: tuple[float, ...]
    """What a position before the pass adds, by rows."""
    draft_ms: dict[str, float]
    """Of a block with its LM head, by the serial mode whose drafter it is."""
    head_ms: float = 0.0
    """Of the LM head alone, over a block."""
    beside_ms: tuple[tuple[int, float], ...] = ()
    """Columns that can be drafted beside a pass, with what they add to it; none where that cannot be done."""

    @property
    def most_rows(self) -> int:
        """Of a pass whose cost is known."""
        return len(self.verify_ms)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Those whose steps have a cost."""
        serial: tuple[Mode, ...] = tuple(mode for mode in ("gpu", "ane") if mode in self.draft_ms)
        return ("plain", *serial, *(("mirror",) if self.beside_ms and "ane" in serial else ()))

    @cached_property
    def budget(self) -> Budget:
        """For drafting beside a pass."""
        return Budget(self.beside_ms, max(0.0, self.draft_ms["ane"] - self.head_ms))

    @cached_property
    def _least_beside_ms(self) -> float:
        return min(added_ms for _, added_ms in self.beside_ms)

    def step_ms(self, mode: Mode, rows: int, depth: int, hit: float) -> float:
        """Of a step over `rows` rows, `depth` positions behind the start; `hit` is how likely its block is there."""
        verify_ms = self.verify_ms[rows - 1] + depth * self.verify_ms_per_position[rows - 1]
        if mode == "mirror":
            return verify_ms + self._least_beside_ms + self.head_ms + (1 - hit) * self.budget.saved_ms
        return verify_ms + self.draft_ms.get(mode, 0.0)


def costs_file(files: Sequence[Path], details: Sequence[str]) -> Path | None:
    """Where costs of the model in `files` are kept; `details` are whatever else they depend on. None where nothing can.

    They depend on the machine and on whether it runs on its battery as well.
    """
    battery = psutil.sensors_battery()
    power = "mains" if battery is None or battery.power_plugged else "battery"
    about = [identity(path) for path in files]
    key = hashlib.sha256("\n".join([chip_name(), power, *about, *details]).encode()).hexdigest()[:24]
    try:
        return cache_dir() / "costs" / f"{key}.json"
    except OSError as error:
        log.warning("There is no folder for the measured costs: %s", error)
        return None


def read_costs(path: Path) -> Costs | None:
    """The costs kept in `path`; None where there are none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Costs)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        log.warning("The measured costs in %s cannot be read, and are measured anew: %s", path, error)
        return None


def write_costs(path: Path, costs: Costs) -> None:
    """Keep `costs`; where the disk does not take them they are measured again next time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, msgspec.json.encode(costs))
    except OSError as error:
        log.warning("The measured costs cannot be kept in %s: %s", path, error)
