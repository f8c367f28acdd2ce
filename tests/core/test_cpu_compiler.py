"""Kernels that MLX compiles for this processor: the same bits as for any processor, whatever the compiler knows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core import cpu_compiler
from core.cpu_compiler import compiler_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="MLX compiles kernels with g++ on Linux alone")

_VALUES = """
import hashlib, core.engine, mlx.core as mx, mlx.nn as nn, numpy as np
random = np.random.default_rng(0)
special = [0.0, -0.0, np.inf, -np.inf, np.nan, 88.0, 88.1, -88.1, 127.5, 1e-40, -1e-40, 3e38, -3e38]
x = np.concatenate([special, random.standard_normal(3000) * 10, np.linspace(-100, 100, 3000)]).astype(np.float32)
y = random.standard_normal(len(x)).astype(np.float32)
functions = {
    "swiglu": lambda x, y: nn.silu(x) * y, "gelu": lambda x, y: nn.gelu(x) + y, "sine": lambda x, y: mx.sin(x) * y,
    "softplus": lambda x, y: mx.logaddexp(x, y), "quotient": lambda x, y: mx.tanh(x) / (y * y + 1),
}
for name, function in functions.items():
    compiled = mx.compile(function, shapeless=True)
    whole = np.array(compiled(mx.array(x), mx.array(y)))
    same = all(
        np.array(compiled(mx.array(x[:n]), mx.array(y[:n]))).tobytes() == whole[:n].tobytes() for n in range(1, 70)
    )
    print(name, hashlib.sha256(whole.tobytes()).hexdigest(), same)
"""


def values(environment: dict[str, str]) -> list[list[str]]:
    """By compiled function, what it gives, and whether a value depends on how many there are."""
    child = subprocess.run(
        [sys.executable, "-c", _VALUES],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split() for line in child.stdout.splitlines()]


def kernels(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*.so")}


def test_kernels_for_this_processor_give_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path / "home"))
    (tmp_path / "usual").mkdir()
    usual, ours = {"TMPDIR": str(tmp_path / "usual")}, compiler_environment()
    found = values(ours)
    assert found == values(usual)
    assert [same for _name, _hash, same in found] == ["True"] * 5
    compiled, compiled_usually = kernels(Path(ours["TMPDIR"])), kernels(tmp_path / "usual")
    assert compiled.keys() == compiled_usually.keys()
    assert all(compiled[name] != compiled_usually[name] for name in compiled), "the flags had no effect"


def compiles(environment: dict[str, str], folder: Path, source: str = "int answer() { return 42; }") -> int:
    (folder / "source.cpp").write_text(source)
    command = 'g++ -shared -fPIC -o "$1/built.so" "$1/source.cpp"'
    child = subprocess.run(["sh", "-c", command, "sh", str(folder)], env={**os.environ, **environment}, check=False)
    return child.returncode


def program(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o755)


def test_a_compiler_that_refuses_the_flags_is_used_without_them(tmp_path, monkeypatch):
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path / "home"))
    real = cpu_compiler._system_compiler(tmp_path)
    refuses = f'#!/bin/sh\ncase "$*" in *-march=native*) exit 1;; esac\nexec {real} "$@"\n'
    program(tmp_path / "a folder" / "g++", refuses)
    monkeypatch.setenv("PATH", f"{tmp_path / 'a folder'}:{os.environ['PATH']}")
    assert compiles(compiler_environment(), tmp_path) == 0
    assert (tmp_path / "built.so").is_file()


def test_an_error_of_the_compiler_stays_one(tmp_path, monkeypatch):
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path / "home"))
    assert compiles(compiler_environment(), tmp_path, "no c++") != 0


def test_a_process_that_has_the_variables_gives_its_children_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path))
    first = compiler_environment()
    monkeypatch.setenv("PATH", first["PATH"])
    again = compiler_environment()
    assert again["TMPDIR"] == first["TMPDIR"]
    assert compiles(again, tmp_path) == 0


def test_another_processor_has_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path))
    here = compiler_environment()["TMPDIR"]
    monkeypatch.setattr(cpu_compiler, "cpu_info", lambda _field: "another")
    assert compiler_environment()["TMPDIR"] != here


def test_without_a_compiler_there_is_the_folder_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    environment = compiler_environment()
    assert environment == {"TMPDIR": str(tmp_path / "cache" / "mlx-cpu")}
    assert Path(environment["TMPDIR"]).is_dir()
