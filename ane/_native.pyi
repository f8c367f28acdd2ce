from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, final

__all__ = [
    "AneError",
    "BuildReport",
    "CpuRuntime",
    "Draft",
    "DraftInfo",
    "InvalidDraft",
    "Package",
    "Program",
    "WriteFailed",
    "build_packages",
    "cpu_features",
    "inspect_draft",
    "tap_scale",
    "version",
]

class AneError(ValueError):
    """A value that the crate cannot work with."""

class InvalidDraft(AneError):
    """A file of a draft is missing, damaged, or describes what cannot be built. The message names it."""

class WriteFailed(AneError):
    """Packages could not be written to the disk. The message names the folder."""

@final
class DraftInfo:
    """What a draft's `config.json` says, as far as programs depend on it, by the names of the published format."""

    @property
    def hidden_size(self) -> int: ...
    @property
    def num_hidden_layers(self) -> int: ...
    @property
    def num_attention_heads(self) -> int: ...
    @property
    def num_key_value_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def intermediate_size(self) -> int: ...
    @property
    def rms_norm_eps(self) -> float: ...
    @property
    def block_size(self) -> int:
        """Rows of a block: the anchor and its masks."""

    @property
    def target_layer_ids(self) -> list[int]:
        """The target's layers whose output is read: the taps."""

    @property
    def sliding(self) -> list[bool]:
        """By layer: whether it sees only the last `sliding_window` positions."""

    @property
    def sliding_window(self) -> int | None: ...
    @property
    def is_causal(self) -> bool | None:
        """None: sliding layers are causal inside the block, full ones are not."""

@final
class Package:
    """A package that was written."""

    @property
    def program(self) -> str:
        """The program in it."""

    @property
    def path(self) -> Path:
        """The folder."""

    @property
    def bytes(self) -> int:
        """All files in it."""

@final
class BuildReport:
    """What `build_packages` wrote."""

    @property
    def packages(self) -> list[Package]:
        """In order of use: ingest, then the layers."""

    @property
    def relative_errors(self) -> dict[str, float]:
        """By tensor: the root of squared errors over squared weights."""

    @property
    def kept_fp16(self) -> list[str]:
        """Tensors that stay in half precision because 8 bits would change them by more than 0.015."""

    @property
    def factors(self) -> dict[str, float]:
        """By tensor: the power of two that its inputs are multiplied by and that it undoes, where that is not 1."""

@final
class CpuRuntime:
    """Runs programs on the processor. Its programs share its threads."""

    def __new__(cls, threads: int = 1) -> CpuRuntime:
        """With so many threads, the caller's included. Raises `AneError` for less than one."""

    @property
    def threads(self) -> int:
        """How many there are. May be set, also while programs are loaded; waits for a run to end."""

    @threads.setter
    def threads(self, value: int) -> None: ...
    def load(
        self,
        draft: str | PathLike[str],
        *,
        precision: Literal["w8a16", "fp16"] = "w8a16",
        width: int = 64,
        context: int = 2048,
    ) -> list[Program]:
        """The programs that `build_packages` would write, ready to run: ingest, then the layers.

        Raises `InvalidDraft`; `AneError` for a size or precision that there is not.
        """

@final
class Program:
    """A program that is ready to run."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what it takes, by name."""

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what it gives, by name."""

    def run(self, inputs: Mapping[str, object], outputs: Mapping[str, object]) -> None:
        """Run once, without the interpreter's lock, on objects that lend memory through the buffer protocol.

        Buffers have the shapes of `inputs` and `outputs` and any positive strides. Inputs are float16, float32 or
        int32, outputs float16 or float32; the program computes with float16, others cost a conversion. Large float16
        inputs whose last axis is contiguous are read where they lie. No output may share memory with another buffer,
        and nobody else may write to the buffers meanwhile.

        Raises `AneError` for other names, types, shapes or strides.
        """

@final
class Draft:
    """A draft at work: its programs, and the context of one conversation.

    Arrays are objects that lend memory through the buffer protocol, with any positive strides: float16 or float32, those
    that are read also int32. Every call runs without the interpreter's lock, one at a time; nobody may write to its arrays
    meanwhile. All raise `AneError` for arrays of other types or shapes.
    """

    def __new__(cls, folder: str | PathLike[str], programs: Sequence[Program]) -> Draft:
        """The draft in `folder` with its programs as `CpuRuntime.load` gives them.

        Programs of layers may come in several widths, one set behind the other: a block takes the narrowest that holds it.

        Raises `InvalidDraft`; `AneError` for programs of another draft.
        """

    @property
    def info(self) -> DraftInfo: ...
    @property
    def width(self) -> int:
        """Columns of a block at most."""

    @property
    def context(self) -> int:
        """Positions of context that a block can see: the first eighth of them, and the newest."""

    @property
    def length(self) -> int:
        """Positions that were ingested or appended."""

    def ingest(self, taps: Sequence[object]) -> None:
        """Append positions: their features, one [n, hidden] array a tap, n >= 1, of any finite size.

        Raises `AneError` also for features that are not finite.
        """

    def append(self, keys: Sequence[object], values: Sequence[object]) -> None:
        """Append positions whose keys and values another draft of the same weights made, by layer.

        [kv heads, head dim, n] each; keys are normed and rotated.
        """

    def read(self, first: int, keys: Sequence[object], values: Sequence[object]) -> None:
        """Copy the n positions from `first` on into arrays [kv heads, head dim, n], by layer."""

    def trim_to(self, length: int) -> None:
        """Forget positions from `length` on. 0 begins another conversation."""

    def run(
        self, embeddings: object, positions: Sequence[int], hidden: object, *, mask: object | None = None
    ) -> None:
        """Run a block: `embeddings` [columns, hidden] at `positions` to `hidden` [columns, hidden], after the final norm.

        Columns see the context, and each other where `mask` allows it: contiguous booleans [columns, columns], queries
        before keys. Without one all see each other. What the layers add to that (a window, no look ahead) is added here.

        Raises `AneError` also where half precision does not hold the draft's numbers.
        """

    def rows(self, layer: int, rows: object) -> None:
        """Copy what entered a layer in the last run into `rows` [columns, hidden]; beyond the last layer, its result."""

def inspect_draft(folder: str | PathLike[str]) -> DraftInfo:
    """Read the config of the draft in `folder` and the headers of its weights, and check that they fit.

    Raises `InvalidDraft`.
    """

def build_packages(
    draft: str | PathLike[str],
    out: str | PathLike[str],
    *,
    precision: Literal["w8a16", "fp16"] = "w8a16",
    width: int = 64,
    context: int = 2048,
    progress: Callable[[str, int, int], object] | None = None,
) -> BuildReport:
    """Write the programs of the draft in the folder `draft` as `.mlpackage` folders into the folder `out`.

    `out` must be empty or not exist; it appears whole or not at all. The same draft always gives the same bytes.
    `precision`: weights in 8 bits with one scale an output channel, or in half precision. `width`: columns of a layer's
    program (16, 32, 64). `context`: positions of context (2048, 4096; 512 for tests).
    Before each program, and at the end, `progress` gets its name (at the end, none), how many are done and how many
    there are. What it raises stops the build and is raised here.

    Raises `InvalidDraft`, `WriteFailed`; `AneError` for a size or precision that there is not.
    """

def version() -> str:
    """The crate's version."""

def cpu_features() -> list[str]:
    """The instruction set extensions that CPU kernels may use on this machine, by rustc's names, oldest first.

    Those that matter to matrix kernels and that processor and operating system both offer:
    for example `avx2`, `avx512vnni`, or `neon`, `dotprod`.
    """

def tap_scale(largest: float) -> float:
    """The power of two by which a row of taps is multiplied before the cast to fp16.

    `largest` is the largest absolute value in the row, over all taps of one position, taken as a float32.
    The result is the largest power of two, 1 at most, with `largest * scale < 1024`. Rows are never scaled up.
    The norm behind the taps cancels the scale when its epsilon is multiplied by the square of it.

    Raises `AneError` when `largest` is NaN, infinite (also: too large for a float32) or negative.
    """
