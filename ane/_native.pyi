from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, final

__all__ = [
    "AneError",
    "BuildReport",
    "CorruptKernels",
    "CpuRuntime",
    "DamagedKernels",
    "Draft",
    "DraftInfo",
    "InvalidDraft",
    "Kernels",
    "Package",
    "Placement",
    "Program",
    "WriteFailed",
    "build_packages",
    "compile_kernels",
    "cpu_features",
    "inspect_draft",
    "list_kernels",
    "load_kernels",
    "place_kernels",
    "remove_kernels",
    "system_runtime",
    "tap_scale",
    "version",
]

class AneError(ValueError):
    """A value that the crate cannot work with."""

class InvalidDraft(AneError):
    """A file of a draft is missing, damaged, or describes what cannot be built. The message names it."""

class WriteFailed(AneError):
    """Packages could not be written to the disk. The message names the folder."""

class CorruptKernels(AneError):
    """Prepared kernels on the disk are damaged or cannot be read. The message names the file and the problem."""

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
class Kernels:
    """A draft's programs, prepared and kept in a cache folder."""

    @property
    def path(self) -> Path:
        """Their folder."""

    @property
    def key(self) -> str:
        """The folder's name: 16 hexadecimal digits that stand for all that the kernels depend on."""

    @property
    def hit(self) -> bool:
        """Whether they were there already."""

    @property
    def replaced(self) -> str | None:
        """What was wrong with damaged ones in their place, which were removed for them."""

    @property
    def bytes(self) -> int:
        """All files."""

    @property
    def programs(self) -> list[str]:
        """Names, in order of use: ingest, then the layers."""

    @property
    def draft(self) -> Path:
        """The folder that they were made of. The same draft in another folder has the same kernels."""

    @property
    def precision(self) -> Literal["w8a16", "fp16"]: ...
    @property
    def width(self) -> int:
        """Columns of a layer's program."""

    @property
    def context(self) -> int:
        """Positions of context."""

    @property
    def runtime(self) -> str:
        """What they are for, as `system_runtime` calls it."""

    @property
    def relative_errors(self) -> dict[str, float]:
        """As in `BuildReport`."""

    @property
    def kept_fp16(self) -> list[str]:
        """As in `BuildReport`."""

    @property
    def factors(self) -> dict[str, float]:
        """As in `BuildReport`."""

    @property
    def seconds(self) -> dict[str, float]:
        """By stage: what making them took, over all programs."""

    @property
    def created_s(self) -> float:
        """When they were made, in seconds since 1970."""

    @property
    def last_used_s(self) -> float:
        """When they were last asked for, before now, in seconds since 1970."""

@final
class DamagedKernels:
    """A folder in a cache that holds no whole kernels. The next `compile_kernels` for them makes them anew."""

    @property
    def path(self) -> Path:
        """The folder."""

    @property
    def key(self) -> str:
        """The folder's name."""

    @property
    def bytes(self) -> int:
        """All files in it."""

    @property
    def problem(self) -> str:
        """What is wrong, in one sentence."""

@final
class Placement:
    """Where a program's operations run by the runtime's plan: three shares of 1, all 0 where it does not say."""

    @property
    def program(self) -> str: ...
    @property
    def operations(self) -> int:
        """How many it has that compute something."""

    @property
    def neural_engine(self) -> float: ...
    @property
    def gpu(self) -> float: ...
    @property
    def cpu(self) -> float: ...

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

    def placement(self) -> Placement:
        """Where it runs. Core ML may take as long to tell as to load a program; waits for a run to end.

        Raises `AneError` where Core ML cannot tell, as before macOS 14.4.
        """

@final
class Draft:
    """A draft at work: its programs, and the context of one conversation.

    Arrays are objects that lend memory through the buffer protocol, with any positive strides: float16 or float32,
    those that are read also int32. Every call runs without the interpreter's lock, one at a time; nobody may write to
    its arrays meanwhile. All raise `AneError` for arrays of other types or shapes.
    """

    def __new__(cls, folder: str | PathLike[str], programs: Sequence[Program]) -> Draft:
        """The draft in `folder` with its programs as `load_kernels` or `CpuRuntime.load` gives them.

        Programs of layers may come in several widths, one set behind the other: a block takes the narrowest that holds
        it.

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

    def run(self, embeddings: object, positions: Sequence[int], hidden: object, *, mask: object | None = None) -> None:
        """Run a block: `embeddings` [columns, hidden] at `positions` to `hidden` [columns, hidden].

        The result is what leaves the final norm.

        Columns see the context, and each other where `mask` allows it: contiguous booleans [columns, columns], queries
        before keys. Without one all see each other. What the layers add to that (a window, no look ahead) is added.
        In the second generation a column stands behind the one at the position before it, of those that it may see.

        Raises `AneError` also where half precision does not hold the draft's numbers.
        """

    def rows(self, layer: int, rows: object) -> None:
        """Copy what entered a layer in the last run into `rows` [columns, hidden]; beyond the last, the result."""

    def placement(self) -> list[Placement]:
        """Of each program, in the order in which they were given. As `Program.placement`."""

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

def compile_kernels(
    draft: str | PathLike[str],
    cache: str | PathLike[str],
    *,
    precision: Literal["w8a16", "fp16"] = "w8a16",
    width: int = 64,
    context: int = 2048,
    progress: Callable[[str, str, int, int, float], object] | None = None,
) -> Kernels:
    """The prepared kernels of the draft in the folder `draft`: those in the folder `cache`, or new ones, kept there.

    Kernels there are found by the contents of config and weights, `precision`, `width` and `context` (as in
    `build_packages`), the builder and the system. Files must all have their sizes; damaged kernels are replaced.
    Of several processes that want the same kernels one makes them and the others wait. Kernels appear whole or not at
    all: no error, exception or end of the process leaves a part of them that counts.

    `progress` gets the stage (`hash`: the draft is read for the key, unless its files are known; `wait`: another
    process makes the kernels; for each program `quantise`, `build`, `write` and, where the system has a compiler,
    `compile`; `seal`: checksums; `done`), the program (empty where it is about none), the steps done, their total, and
    the seconds so far: when each stage begins, and within long ones about ten times a second. What it raises stops the
    work and is raised here, as is the KeyboardInterrupt of a main thread, and nothing is left. (A compilation that Core
    ML has begun goes on in the background to its end; what it makes is dropped.)

    Raises `InvalidDraft`, `WriteFailed`; `CorruptKernels` where a file cannot be read; `AneError` for a size or
    precision that there is not, and where the system's compiler fails.
    """

def list_kernels(cache: str | PathLike[str]) -> list[Kernels | DamagedKernels]:
    """All kernels in the folder `cache`, in the order of their keys. Looks at names and sizes of files only.

    Raises `CorruptKernels` where the folder cannot be read.
    """

def remove_kernels(cache: str | PathLike[str], keys: list[str] | None = None) -> int:
    """Remove the kernels with these keys from the folder `cache`, or all and what else is kept there.

    Returns how many bytes they had. Raises `AneError` for a key that there is not, and then removes nothing;
    `WriteFailed`, `CorruptKernels` where the disk does not let it.
    """

def load_kernels(kernels: Kernels, cpu: CpuRuntime) -> list[Program]:
    """The programs of prepared kernels, ready to run, through the runtime that they are for.

    Those for the processor run on `cpu`, and are the same as those of `CpuRuntime.load`. Those for Core ML run on the
    Neural Engine and the processor, and have nothing to do with `cpu`. They must stay where they are: the system
    remembers by path how it specialised them, which may take minutes when they are loaded for the first time. (Not
    verified on a Mac.)

    All files are compared with their checksums first (a second for 1.5 GB on one core).
    Raises `CorruptKernels`. Damaged ones are removed, so that the next `compile_kernels` makes them anew. Raises
    `AneError` where Core ML fails or takes too long, and for kernels of a runtime that this system does not have.
    """

def place_kernels(kernels: Kernels) -> list[Placement]:
    """Where each program would run, in order of use. Raises as `load_kernels`, and as `Program.placement`."""

def system_runtime() -> Literal["cpu", "coreml"]:
    """What this system runs kernels with, and what `compile_kernels` therefore prepares them for.

    `coreml` on macOS; elsewhere `cpu`, our own programs on the processor.
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
