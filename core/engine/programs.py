"""A draft's programs, ready to run on this machine: by Core ML on a Mac, elsewhere by our own runtime."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import ane
from core.engine.branches import Outcomes
from core.engine.draft_thread import DraftThread
from core.engine.drafter_ane import AneDrafter
from core.engine.target import Target
from core.errors import Cancelled
from core.kernel_messages import Precision
from core.machine import usable_cores
from core.paths import kernels_dir

log = logging.getLogger("mirror_sd.programs")

_CONTEXT = 2048
_WIDTHS = (16, 32, 64)
_BRANCH_COLUMNS = 32
"""For the processor, where columns cost time; the Neural Engine has room for 64 at the price of 16."""


@dataclass
class Programs:
    """What drafting with programs needs, for as long as a pair is loaded."""

    drafter: AneDrafter
    runtime: ane.CpuRuntime
    runs_on: Literal["cpu", "coreml"]
    """The runtime that has the programs. Of Core ML, ask `ane.Program.placement` which device it uses."""
    thread: DraftThread = field(default_factory=DraftThread)
    outcomes: Outcomes = field(default_factory=Outcomes)

    def share_processor(self, share: bool) -> None:
        """Whether the programs run beside the target, which then keeps half of the cores; not for Core ML."""
        if self.runs_on == "coreml":
            return
        cores = usable_cores()
        self.runtime.threads = max(1, cores // 2) if share else cores

    def device(self) -> str:
        """Where they run, in words; Core ML may take as long to tell as to load a program (not verified on a Mac)."""
        if self.runs_on == "cpu":
            return "processor"
        try:
            placements = [program.placement() for program in self.drafter.programs]
        except ane.AneError as error:
            log.warning("Core ML does not say where the draft's programs run: %s", error)
            return "Core ML"
        return main_device(placements)

    def close(self) -> None:
        """End the draft's thread."""
        self.thread.close()


def main_device(placements: Sequence[ane.Placement]) -> str:
    """The device that has more than half of all operations, else `Core ML`."""
    total = sum(placement.operations for placement in placements)
    for name, attribute in (("Neural Engine", "neural_engine"), ("GPU", "gpu"), ("processor", "cpu")):
        if 2 * sum(getattr(placement, attribute) * placement.operations for placement in placements) > total:
            return name
    return "Core ML"


def load_programs(
    folder: Path, target: Target, cancelled: Callable[[], bool] = lambda: False, precision: Precision = "w8a16"
) -> Programs:
    """The programs of the draft in `folder`, whose taps `target` has on.

    Prepared once and kept on the disk; the first time on a Mac may take minutes. Raises as `AneDrafter` does,
    `ane.AneError` where they cannot be prepared or loaded, and `Cancelled` while they are prepared.
    """
    runtime, runs_on = ane.CpuRuntime(), ane.system_runtime()
    first, *others = _widths(ane.inspect_draft(folder).block_size, runs_on)
    programs = _load(folder, first, runtime, cancelled, precision)
    for width in others:
        programs += [
            program for program in _load(folder, width, runtime, cancelled, precision) if "x" in program.inputs
        ]
    return Programs(AneDrafter(folder, programs, target), runtime, runs_on)


def making_s(folder: Path, precision: Precision) -> float:
    """What preparing the programs of `load_programs` took when it was done, in seconds. They are kept on the disk.

    Raises `ane.AneError`.
    """
    widths = _widths(ane.inspect_draft(folder).block_size, ane.system_runtime())
    kept = [
        ane.compile_kernels(folder, kernels_dir(), precision=precision, width=width, context=_CONTEXT)
        for width in widths
    ]
    return sum(second for kernels in kept for second in kernels.seconds.values())


def _widths(block: int, runs_on: Literal["cpu", "coreml"]) -> list[int]:
    if runs_on == "coreml":
        return [_WIDTHS[-1]]
    narrow = next(width for width in _WIDTHS if width >= block)
    return sorted({narrow, max(narrow, _BRANCH_COLUMNS)})


def _load(
    folder: Path, width: int, runtime: ane.CpuRuntime, cancelled: Callable[[], bool], precision: Precision
) -> list[ane.Program]:
    """The kept programs; on the processor, where the disk does not take them, programs in memory alone."""
    try:
        try:
            return _load_kept(folder, width, runtime, cancelled, precision)
        except ane.CorruptKernels as error:
            log.warning("%s They are made anew.", error)
            return _load_kept(folder, width, runtime, cancelled, precision)
    except (ane.WriteFailed, ane.CorruptKernels) as error:
        if ane.system_runtime() != "cpu":
            raise
        log.warning("%s They are kept in memory alone.", error)
        return runtime.load(folder, precision=precision, width=width, context=_CONTEXT)


def _load_kept(
    folder: Path, width: int, runtime: ane.CpuRuntime, cancelled: Callable[[], bool], precision: Precision
) -> list[ane.Program]:
    def progress(*_: object) -> None:
        if cancelled():
            raise Cancelled("Stopped while loading.")

    try:
        cache = kernels_dir()
    except OSError as error:
        raise ane.WriteFailed(f"The folder for prepared kernels cannot be made: {error}.") from error
    kernels = ane.compile_kernels(folder, cache, precision=precision, width=width, context=_CONTEXT, progress=progress)
    return ane.load_kernels(kernels, runtime)
