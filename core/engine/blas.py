"""A fast BLAS for MLX's CPU back end on Linux, taken before mlx is imported.

MLX's Linux wheel links the reference BLAS (about 1 GFLOP/s). A system OpenBLAS that is loaded first with global
symbols takes its place. Older OpenBLAS builds compute wrong products on some processors, so one product is
checked against numpy in a child process before the library is trusted; the verdict is kept in the cache folder.
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

# Row counts of decoding and prefill against an inner size and a column count that are no multiples of a kernel's tile.
_CHECK = """
import ctypes, sys
ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
import mlx.core as mx, numpy as np
random = np.random.default_rng(0)
b = random.standard_normal((577, 1031)).astype(np.float32)
worst = 0.0
for rows in (1, 2, 8, 130):
    a = random.standard_normal((rows, 577)).astype(np.float32)
    with mx.stream(mx.cpu):
        product = np.array(mx.array(a) @ mx.array(b))
    worst = max(worst, float(np.abs(product - a.astype(np.float64) @ b.astype(np.float64)).max()))
print("RESULT", worst)
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
    if not _is_sound(library):
        return BlasReport("stock", str(library), "wrong results", _WRONG_HINT)
    ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    return BlasReport("OpenBLAS", str(library), "checked")


def find_library() -> Path | None:
    """The system's OpenBLAS, if it has one."""
    for pattern in _CANDIDATES:
        for path in sorted(Path("/").glob(pattern.lstrip("/"))):
            return path.resolve()
    return None


def _is_sound(library: Path) -> bool:
    """Whether the library's products are right on this processor; checked once per library, processor and mlx."""
    remembered = cache_dir() / "blas-check.json"
    key = _check_key(library)
    try:
        verdicts: dict[str, bool] = json.loads(remembered.read_text())
    except (OSError, ValueError):
        verdicts = {}  # first run, or a damaged file: check again
    if key not in verdicts:
        verdicts[key] = _products_are_right(library)
        scratch = remembered.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(verdicts))
        scratch.replace(remembered)
    return verdicts[key]


def _check_key(library: Path) -> str:
    stat = library.stat()
    core_type = os.environ.get("OPENBLAS_CORETYPE", "")
    return f"{library}|{stat.st_size}|{stat.st_mtime_ns}|{_processor()}|{core_type}|mlx {version('mlx')}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _products_are_right(library: Path) -> bool:
    """One product for each of several row counts against numpy in float64, in a child that may crash."""
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-c", _CHECK, str(library)],
            capture_output=True,
            text=True,
            timeout=_CHECK_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return False
    words = child.stdout.split()
    return child.returncode == 0 and words[:1] == ["RESULT"] and float(words[1]) < _CHECK_TOLERANCE
