"""The package `ane` as Python sees it: the native functions, and the stub that describes them."""

from __future__ import annotations

import math
import pickle
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ane

FLOAT32_MAX = 3.4028234663852886e38
# The kernel's names for what rustc names otherwise.
LINUX_NAMES = {
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avxvnni": "avx_vnni",
    "neon": "asimd",
    "fp16": "asimdhp",
    "dotprod": "asimddp",
    "fhm": "asimdfhm",
}
NEWER_X86 = ["avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512bf16", "avxvnni", "avx512fp16"]
KNOWN = {
    "x86_64": ["avx", "f16c", "fma", "avx2", *NEWER_X86],
    "aarch64": ["neon", "fp16", "dotprod", "fhm", "bf16", "i8mm", "sve"],
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/cpuinfo")
def test_cpu_features_are_those_that_the_kernel_lists() -> None:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next(line for line in lines if line.lower().startswith(("flags", "features"))).split()
    expected = [name for name in KNOWN[platform.machine()] if LINUX_NAMES.get(name, name) in flags]
    assert ane.cpu_features() == expected


@pytest.mark.parametrize(
    ("largest", "scale"), [(0.0, 1.0), (-0.0, 1.0), (1023.9, 1.0), (1024.0, 0.5), (24_891.0, 1 / 32)]
)
def test_tap_scale_of_known_rows(largest: float, scale: float) -> None:
    assert ane.tap_scale(largest) == scale


@given(st.floats(0, FLOAT32_MAX, width=32))
def test_tap_scale_is_the_largest_power_of_two_that_brings_a_row_below_1024(largest: float) -> None:
    scale = ane.tap_scale(largest)
    assert math.frexp(scale)[0] == 0.5, "no power of two"
    assert scale <= 1
    assert largest * scale < 1024
    assert scale == 1 or largest * scale * 2 >= 1024


@pytest.mark.parametrize("largest", [math.nan, math.inf, -math.inf, -1.0, 1e39])
def test_tap_scale_refuses_what_is_no_largest_absolute_value(largest: float) -> None:
    with pytest.raises(ane.AneError, match="finite and not negative"):
        ane.tap_scale(largest)


def test_an_error_of_the_crate_is_a_value_error_that_crosses_processes() -> None:
    error = pickle.loads(pickle.dumps(ane.AneError("sentence")))
    assert isinstance(error, ValueError)
    assert (type(error), error.args) == (ane.AneError, ("sentence",))


def test_the_stub_describes_the_native_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "ane._native"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
