"""A fast BLAS for MLX's CPU back end on Linux, taken before mlx is imported.

MLX's Linux wheel links the reference BLAS (about 1 GFLOP/s). Libraries that are loaded first with global symbols take
its place: our own kernels for products of few rows (ane/src/runtime/), which read the weights once and give a row the
same result at every width, and the system's OpenBLAS for the others. Older OpenBLAS builds compute wrong products on
some processors, and do not know newer ones: on those they fall back to kernels of twenty years ago. So products are
checked against numpy in a child process before the libraries are trusted, with better kernels where OpenBLAS's own
choice is poor; the verdict is kept in the cache folder.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import msgspec

from core.engine import blas_load
from core.files import identity, replace_file
from core.machine import chip_name, cpu_info
from core.paths import cache_dir
from core.protocol import BlasReport

SWITCH = "MIRROR_SD_BLAS"
"""Environment variable: `stock` keeps the BLAS that MLX was linked with."""

_CANDIDATES = (
    "/usr/lib/*-linux-gnu/openblas-pthread/libopenblas.so.0",
    "/usr/lib/*-linux-gnu/libopenblas.so.0",
    "/usr/lib64/libopenblas.so.0",
    "/usr/lib/libopenblas.so.0",
    "/usr/local/lib/libopenblas.so.0",
)
_INSTALL_HINT = "Install OpenBLAS, which reads long prompts a little faster (Debian: libopenblas0-pthread)."
_TOO_LATE_HINT = "mlx was imported before core.engine: import core.engine first."
_WRONG_HINT = "This OpenBLAS computes wrong products on this processor; try another version, or set OPENBLAS_CORETYPE."
_KERNELS_WRONG_HINT = "Our own kernels compute wrong products on this processor and are left out. Please report it."

CORE_TYPE = "OPENBLAS_CORETYPE"
"""OpenBLAS's own variable: which kernels to use. Where the user sets it, it is left alone."""
_GOOD_CORES = {"haswell", "zen", "skylakex", "cooperlake", "sapphirerapids"}
# Kernels by the CPU flags that they need, best first.
_CORES_BY_FLAGS = (
    ("Cooperlake", {"avx512f", "avx512bw", "avx512vl", "avx512_bf16"}),
    ("SkylakeX", {"avx512f", "avx512bw", "avx512vl"}),
    ("Haswell", {"avx2", "fma"}),
)

# Row counts of decoding and prefill against sizes that are no multiples of a kernel's tile, with B as attention has its
# values and transposed as a linear layer has its weights. With our own kernels a row's bits must not depend on the
# width.
_CHECK = """
import ctypes, runpy, sys
loader, openblas, kernels = sys.argv[1:]
runpy.run_path(loader)["load"](openblas, kernels)
core = "none"
if openblas:
    library = ctypes.CDLL(openblas)
    library.openblas_get_corename.restype = ctypes.c_char_p
    core = library.openblas_get_corename().decode()
same_from = ctypes.CDLL(kernels).mirror_sd_most_rows() if kernels else 0
import mlx.core as mx, numpy as np
random = np.random.default_rng(0)
b = random.standard_normal((577, 1031)).astype(np.float32)
a = random.standard_normal((130, 577)).astype(np.float32)
exact = a.astype(np.float64) @ b.astype(np.float64)
worst, differs = 0.0, False
with mx.stream(mx.cpu):
    for right in (mx.array(b), mx.array(np.ascontiguousarray(b.T)).T):
        one = np.concatenate([np.array(mx.array(a[i : i + 1]) @ right) for i in range(same_from)] or [a[:0]])
        for rows in (1, 2, 7, 8, 16, 31, 130):
            product = np.array(mx.array(a[:rows]) @ right)
            worst = float(np.maximum(worst, np.abs(product - exact[:rows]).max()))  # NaN stays
            differs |= rows <= same_from and not np.array_equal(product, one[:rows])
print("RESULT", worst, core, differs)
"""
_CHECK_TOLERANCE = 1e-3  # float32 sums of 577 products of unit variance err by about 5e-5
_CHECK_TIMEOUT_S = 120


def prepare() -> BlasReport:
    """Load a fast BLAS where one is needed and sound. Call before the first import of mlx in the process."""
    if sys.platform != "linux":
        return BlasReport("Metal", "", "not needed")
    if os.environ.get(SWITCH) == "stock":
        return BlasReport("stock", "", "switched off")
    if "mlx.core" in sys.modules:
        return BlasReport("stock", "", "too late", _TOO_LATE_HINT)
    library, kernels = find_library(), find_kernels()
    choice = _remembered_choice(library, kernels)
    return _take(choice, library, kernels)


class _Choice(NamedTuple):
    """The libraries with which products are right."""

    openblas: bool
    core_type: str
    kernels: bool


def _take(choice: _Choice, library: Path | None, kernels: Path | None) -> BlasReport:
    path, own = str(library) if choice.openblas else "", str(kernels) if choice.kernels else ""
    if choice.core_type:
        os.environ[CORE_TYPE] = choice.core_type
    blas_load.load(path, own)
    if choice.core_type:
        del os.environ[CORE_TYPE]  # it was read while loading; child processes choose for themselves
    if choice.openblas:
        hint = _KERNELS_WRONG_HINT if kernels and not own else ""
    else:
        hint = _WRONG_HINT if library else _INSTALL_HINT
    if not path and not own:
        return BlasReport("stock", str(library or ""), "wrong results" if library else "not found", hint)
    name = "OpenBLAS" if path else "Mirror SD"
    report = BlasReport(name, path, "checked", hint, choice.core_type)
    return msgspec.structs.replace(report, **_about(own)) if own else report


def _about(kernels: str) -> dict[str, str | int]:
    """What our own kernels are, in the words of the report."""
    own = ctypes.CDLL(kernels)
    own.mirror_sd_instruction_set.restype = ctypes.c_char_p
    return {
        "kernels_path": kernels,
        "kernels": own.mirror_sd_instruction_set().decode(),
        "kernel_rows": own.mirror_sd_most_rows(),
    }


def find_library() -> Path | None:
    """The system's OpenBLAS, if it has one."""
    for pattern in _CANDIDATES:
        for path in sorted(Path("/").glob(pattern.lstrip("/"))):
            return path.resolve()
    return None


def find_kernels() -> Path | None:
    """The native module of `ane`, which is found without importing the package."""
    package = importlib.util.find_spec("ane")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for suffix in EXTENSION_SUFFIXES:
            path = Path(folder) / f"_native{suffix}"
            if path.is_file():
                return path
    return None


def _remembered_choice(library: Path | None, kernels: Path | None) -> _Choice:
    """What `_find_choice` found; looked for once per libraries, processor and mlx."""
    remembered = cache_dir() / "blas-check.json"
    key = _check_key(library, kernels)
    try:
        found: dict[str, tuple[bool, str, bool]] = json.loads(remembered.read_text())
    except (OSError, ValueError):
        found = {}  # first run, or a damaged file: check again
    if key not in found:
        found[key] = _find_choice(library, kernels)
        replace_file(remembered, json.dumps(found).encode())
    return _Choice(*found[key])


def _find_choice(library: Path | None, kernels: Path | None) -> _Choice:
    """The best of both, else one of them alone, else neither."""
    for own in dict.fromkeys((kernels, None)):
        core_type = _find_core_type(library, own) if library else None
        if core_type is not None:
            return _Choice(True, core_type, own is not None)
    return _Choice(False, "", kernels is not None and _core_of_right_products(None, kernels, "") is not None)


def _find_core_type(library: Path, kernels: Path | None) -> str | None:
    """The kernels with which OpenBLAS's products are right: "" for its own choice, None for none."""
    own = _core_of_right_products(library, kernels, "")
    flags = _cpu_flags()
    better = [name for name, needed in _CORES_BY_FLAGS if needed <= flags]
    if CORE_TYPE not in os.environ and (own is None or own.lower() not in _GOOD_CORES):
        for name in better:
            if _core_of_right_products(library, kernels, name):
                return name
    return None if own is None else ""


def _check_key(library: Path | None, kernels: Path | None) -> str:
    core_type = os.environ.get(CORE_TYPE, "")
    return f"{_identity(library)}|{_identity(kernels)}|{chip_name()}|{core_type}|mlx {version('mlx')}"


def _identity(file: Path | None) -> str:
    return "none" if file is None else identity(file)


def _cpu_flags() -> set[str]:
    return set(cpu_info("flags").split())


def _core_of_right_products(library: Path | None, kernels: Path | None, core_type: str) -> str | None:
    """Multiply in a child, which may crash, and compare with numpy in float64: OpenBLAS's kernels, None where wrong."""
    environment = {**os.environ, CORE_TYPE: core_type} if core_type else dict(os.environ)
    paths = [blas_load.__file__, str(library or ""), str(kernels or "")]
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-c", _CHECK, *paths],
            capture_output=True,
            text=True,
            timeout=_CHECK_TIMEOUT_S,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return None
    match child.stdout.split():
        case ["RESULT", worst, core, "False"] if not child.returncode and float(worst) < _CHECK_TOLERANCE:
            return core
        case _:
            return None
