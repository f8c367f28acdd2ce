"""A draft's programs, ready to run on this machine: by Core ML on a Mac, elsewhere by our own runtime."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import ane
from core.engine.branches import Budget, Outcomes
from core.engine.draft_thread import DraftThread
from core.engine.drafter_ane import AneDrafter
from core.engine.selector import CandidateSelector
from core.engine.target import Target
from core.kernel_messages import Precision
from core.kernels_folder import kernels_dir
from core.machine import usable_cores
from core.pairs.memory import PROGRAMS_CONTEXT

log = logging.getLogger("mirror_sd.programs")

_KEPT = "Prepared earlier, and kept."
MADE = "Prepared now: there were none for these weights on this system."

Tell = Callable[..., None]
"""Gets the fields of a `KernelProgress`."""

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
    origin: str = ""
    """Whether they were there already, and why not; a sentence."""
    threads: int = 0
    """Of the processor, that the user gives them; 0 leaves it to `share_processor`."""
    thread: DraftThread = field(default_factory=DraftThread)
    outcomes: Outcomes = field(default_factory=Outcomes)
    budget: Budget = field(init=False)
    """For drafting beside the target: as if all columns cost the same, until their cost was measured."""

    def __post_init__(self) -> None:
        self.budget = Budget.flat(self.drafter.width)

    def share_processor(self, share: bool) -> None:
        """Whether the programs run beside the target, which then keeps half of the cores; not for Core ML."""
        if self.runs_on == "coreml":
            return
        cores = usable_cores()
        self.runtime.threads = self.threads or (max(1, cores // 2) if share else cores)

    @cached_property
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
    folder: Path,
    target: Target,
    tell: Tell = lambda *_fields: None,
    precision: Precision = "w8a16",
    selector: CandidateSelector | None = None,
) -> Programs:
    """The programs of the draft in `folder`, whose taps `target` has on; `selector` is the draft's, where it has one.

    Prepared once and kept on the disk; the first time on a Mac may take minutes. `tell` gets the fields of a
    `KernelProgress` and may raise to stop. Touches no MLX. Raises as `AneDrafter` does, and `ane.AneError` where they
    cannot be prepared or loaded.
    """
    runtime, runs_on = ane.CpuRuntime(), ane.system_runtime()
    widths = _widths(ane.inspect_draft(folder).block_size, runs_on)
    programs, origins = [], []
    for index, width in enumerate(widths):
        loaded, origin = _load(folder, width, runtime, _of_all(tell, index, widths), precision)
        programs += [program for program in loaded if index == 0 or "x" in program.inputs]
        origins.append(origin)
    made = [origin for origin in origins if origin != _KEPT]
    return Programs(AneDrafter(folder, programs, target, selector), runtime, runs_on, (made or origins)[0])


def _of_all(tell: Tell, index: int, widths: Sequence[int]) -> Tell:
    """Tells of one width's programs as a part of those of all widths."""

    def told(stage: str, program: str, done: int, total: int, elapsed_s: float) -> None:
        named = f"{program} for {widths[index]} columns" if program and len(widths) > 1 else program
        tell(stage, named, index * total + done, len(widths) * total, elapsed_s)

    return told


def making_s(folder: Path, precision: Precision) -> float:
    """What preparing the programs of `load_programs` took when it was done, in seconds. They are kept on the disk.

    Raises `ane.AneError`.
    """
    widths = _widths(ane.inspect_draft(folder).block_size, ane.system_runtime())
    kept = [
        ane.compile_kernels(folder, kernels_dir(), precision=precision, width=width, context=PROGRAMS_CONTEXT)
        for width in widths
    ]
    return sum(second for kernels in kept for second in kernels.seconds.values())


def _widths(block: int, runs_on: Literal["cpu", "coreml"]) -> list[int]:
    if runs_on == "coreml":
        return [_WIDTHS[-1]]
    narrow = next(width for width in _WIDTHS if width >= block)
    return sorted({narrow, max(narrow, _BRANCH_COLUMNS)})


def _load(
    folder: Path, width: int, runtime: ane.CpuRuntime, tell: Tell, precision: Precision
) -> tuple[list[ane.Program], str]:
    """The kept programs; on the processor, where the disk does not take them, programs in memory alone. And which."""
    try:
        try:
            return _load_kept(folder, width, runtime, tell, precision)
        except ane.CorruptKernels as error:
            log.warning("%s They are made anew.", error)
            return _load_kept(folder, width, runtime, tell, precision)
    except (ane.WriteFailed, ane.CorruptKernels) as error:
        if ane.system_runtime() != "cpu":
            raise
        log.warning("%s They are kept in memory alone.", error)
        programs = runtime.load(folder, precision=precision, width=width, context=PROGRAMS_CONTEXT)
        return programs, f"Kept in memory alone: {error}"


def _load_kept(
    folder: Path, width: int, runtime: ane.CpuRuntime, tell: Tell, precision: Precision
) -> tuple[list[ane.Program], str]:
    try:
        cache = kernels_dir()
    except OSError as error:
        raise ane.WriteFailed(f"The folder for prepared kernels cannot be made: {error}.") from error
    kernels = ane.compile_kernels(
        folder, cache, precision=precision, width=width, context=PROGRAMS_CONTEXT, progress=tell
    )
    origin = _KEPT if kernels.hit else MADE
    if kernels.replaced:
        origin = f"Prepared anew: {kernels.replaced}"
    return ane.load_kernels(kernels, runtime), origin
