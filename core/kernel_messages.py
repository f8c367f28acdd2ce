"""The messages about kernels: the programs of a draft, as packages or prepared and kept."""

from __future__ import annotations

from typing import Literal

import msgspec

from core.message import Message

Precision = Literal["w8a16", "fp16"]
PRECISIONS: tuple[Precision, ...] = ("w8a16", "fp16")


class KernelOptions(msgspec.Struct, frozen=True):
    """What programs are made."""

    precision: Precision = "w8a16"
    """Weights in 8 bits with one scale an output channel, or in half precision."""
    width: int = 64
    """Columns of a layer's program."""
    context: int = 2048
    """Positions of context."""


# ---------------------------------------------------------------- requests


class BuildKernels(Message, frozen=True):
    """Write the draft's packages. Answered by `KernelProgress`..., then `KernelsBuilt`."""

    draft: str
    out: str
    """A folder that is empty or does not exist."""
    options: KernelOptions = KernelOptions()


class CompileKernels(Message, frozen=True):
    """Prepare the draft's kernels unless they are. Answered by `KernelProgress`..., then `KernelsCompiled`."""

    draft: str
    options: KernelOptions = KernelOptions()


class PlaceKernels(Message, frozen=True):
    """Tell where kernels would run; prepares them first. Answered by `KernelProgress`..., then `KernelsPlaced`."""

    draft: str
    options: KernelOptions = KernelOptions()


class ListKernels(Message, frozen=True):
    """Answered by `KernelList`."""


class CleanKernels(Message, frozen=True):
    """Remove prepared kernels. Answered by `KernelsCleaned`."""

    keys: tuple[str, ...] | None
    """None removes all."""


KernelRequest = BuildKernels | CompileKernels | PlaceKernels | ListKernels | CleanKernels


# ------------------------------------------------------------------ events


class KernelProgress(Message, frozen=True):
    """How far the work on kernels is."""

    stage: Literal["hash", "wait", "quantise", "build", "write", "compile", "seal", "done"]
    program: str
    """Empty where the stage is about none."""
    done: int
    total: int
    """Steps: one a stage and program."""
    elapsed_s: float


class KernelReport(msgspec.Struct, frozen=True):
    """What became of the draft's tensors, by name."""

    relative_errors: dict[str, float]
    """Root of squared errors over squared weights."""
    kept_fp16: tuple[str, ...]
    """Tensors that stay in half precision because 8 bits would change them too much."""
    factors: dict[str, float]
    """Powers of two that keep activations in range, where that is not 1."""


class KernelPackage(msgspec.Struct, frozen=True):
    """A package that was written."""

    program: str
    path: str
    bytes: int


class KernelsBuilt(Message, frozen=True):
    """The packages are written."""

    packages: tuple[KernelPackage, ...]
    report: KernelReport


class KernelEntry(msgspec.Struct, frozen=True):
    """Prepared kernels."""

    key: str
    path: str
    bytes: int
    draft: str = ""
    """The folder that they were made of."""
    options: KernelOptions | None = None
    """None where they are damaged."""
    runtime: str = ""
    """`cpu` for the portable CPU runtime."""
    programs: tuple[str, ...] = ()
    created_s: float = 0.0
    """Seconds since 1970."""
    last_used_s: float = 0.0
    problem: str = ""
    """What is wrong with damaged ones, in a sentence."""


class KernelsCompiled(Message, frozen=True):
    """The kernels are ready."""

    entry: KernelEntry
    hit: bool
    """Whether they were there already."""
    replaced: str
    """What was wrong with damaged ones that they replace; empty where there were none."""
    stage_s: dict[str, float]
    """What each stage took when they were made, over all programs."""
    elapsed_s: float
    """What this request took."""
    report: KernelReport


class KernelList(Message, frozen=True):
    """All prepared kernels."""

    folder: str
    entries: tuple[KernelEntry, ...]


class KernelsCleaned(Message, frozen=True):
    """The kernels are removed."""

    removed: int
    bytes_freed: int


class ProgramPlacement(msgspec.Struct, frozen=True):
    """Where the operations of a program would run: three shares of 1."""

    program: str
    operations: int
    neural_engine: float
    gpu: float
    cpu: float


class KernelsPlaced(Message, frozen=True):
    """Where the kernels would run."""

    key: str
    runtime: str
    """As in `KernelEntry`."""
    programs: tuple[ProgramPlacement, ...]
