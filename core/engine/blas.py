"""A fast BLAS for MLX's CPU back end on Linux, taken before mlx is imported.

MLX's Linux wheel links the reference BLAS (about 1 GFLOP/s). A system OpenBLAS that is loaded first with global
symbols takes its place. Older OpenBLAS builds compute wrong products on some processors, and do not know newer ones:
on those they fall back to kernels of twenty years ago. So products are checked against numpy in a child process before
the library is trusted, with better kernels where its own choice is poor; the verdict is kept in the cache folder.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

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
_INSTALL_HINT = "Install OpenBLAS for a model that answers about twenty times faster (Debian: libopenblas0-pthread)."
_TOO_LATE_HINT = "mlx was imported before core.engine: import core.engine first."
_WRONG_HINT = "This OpenBLAS computes wrong products on this processor; try another version, or set OPENBLAS_CORETYPE."

CORE_TYPE = "OPENBLAS_CORETYPE"
"""OpenBLAS's own variable: which kernels to use. Where the user sets it, it is left alone."""
_GOOD_CORES = {"haswell", "zen", "skylakex", "cooperlake", "sapphirerapids"}
# Kernels by the CPU flags that they need, best first.
_CORES_BY_FLAGS = (
    ("Cooperlake", {"avx512f", "avx512bw", "avx512vl", "avx512_bf16"}),
    ("SkylakeX", {"avx512f", "avx512bw", "avx512vl"}),
    ("Haswell", {"avx2", "fma"}),
)

# Row counts of decoding and prefill against an inner size and a column count that are no multiples of a kernel's tile.
_CHECK = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
library.openblas_get_corename.restype = ctypes.c_char_p
core = library.openblas_get_corename().decode()
import mlx.core as mx, numpy as np
random = np.random.default_rng(0)
b = random.standard_normal((577, 1031)).astype(np.float32)
worst = 0.0
for rows in (1, 2, 8, 130):
    a = random.standard_normal((rows, 577)).astype(np.float32)
    with mx.stream(mx.cpu):
        product = np.array(mx.array(a) @ mx.array(b))
    error = np.abs(product - a.astype(np.float64) @ b.astype(np.float64)).max()
    worst = float(np.maximum(worst, error))  # NaN stays
print("RESULT", worst, core)
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
    library = find_library()
    if library is None:
        return BlasReport("stock", "", "not found", _INSTALL_HINT)
    core_type = _remembered_core_type(library)
    if core_type is None:
        return BlasReport("stock", str(library), "wrong results", _WRONG_HINT)
    if core_type:
        os.environ[CORE_TYPE] = core_type
    ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    if core_type:
        del os.environ[CORE_TYPE]  # it was read while loading; child processes choose for themselves
    return BlasReport("OpenBLAS", str(library), "checked", core_type=core_type)


def find_library() -> Path | None:
    """The system's OpenBLAS, if it has one."""
    for pattern in _CANDIDATES:
        for path in sorted(Path("/").glob(pattern.lstrip("/"))):
            return path.resolve()
    return None


def _remembered_core_type(library: Path) -> str | None:
    """What `_find_core_type` found; looked for once per library, processor and mlx."""
    remembered = cache_dir() / "blas-check.json"
    key = _check_key(library)
    try:
        found: dict[str, str | None] = json.loads(remembered.read_text())
    except (OSError, ValueError):
        found = {}  # first run, or a damaged file: check again
    if key not in found:
        found[key] = _find_core_type(library)
        scratch = remembered.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(found))
        scratch.replace(remembered)
    return found[key]


def _find_core_type(library: Path) -> str | None:
    """The kernels with which the library's products are right: "" for its own choice, None for none."""
    own = _core_of_right_products(library, "")
    flags = _cpu_flags()
    better = [name for name, needed in _CORES_BY_FLAGS if needed <= flags]
    if CORE_TYPE not in os.environ and (own is None or own.lower() not in _GOOD_CORES):
        for name in better:
            if _core_of_right_products(library, name):
                return name
    return None if own is None else ""


def _check_key(library: Path) -> str:
    stat = library.stat()
    core_type = os.environ.get(CORE_TYPE, "")
    return f"{library}|{stat.st_size}|{stat.st_mtime_ns}|{_processor()}|{core_type}|mlx {version('mlx')}"


def _processor() -> str:
    return _cpu_info("model name") or platform.machine()


def _cpu_flags() -> set[str]:
    return set(_cpu_info("flags").split())


def _cpu_info(field: str) -> str:
    """A field of the first processor; empty where the kernel does not tell."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(field):
            return line.partition(":")[2].strip()
    return ""


def _core_of_right_products(library: Path, core_type: str) -> str | None:
    """Multiply in a child, which may crash, and compare with numpy in float64: the kernels used, None where wrong."""
    environment = {**os.environ, CORE_TYPE: core_type} if core_type else dict(os.environ)
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-c", _CHECK, str(library)],
            capture_output=True,
            text=True,
            timeout=_CHECK_TIMEOUT_S,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return None
    words = child.stdout.split()
    if child.returncode or len(words) != 3 or words[0] != "RESULT" or not float(words[1]) < _CHECK_TOLERANCE:
        return None
    return words[2]
