"""The fast BLAS: taken before mlx, checked first, and left out where it is wrong or unwanted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import core.engine
from core.engine import blas

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only MLX's Linux wheel needs another BLAS")


def prepared_in_a_child(home: Path, **environment: str) -> dict[str, object]:
    """What a fresh process reports, and whether the library was mapped before mlx.core was."""
    code = (
        "import core.engine, json, msgspec, sys\n"
        "early = 'mlx.core' not in sys.modules\n"
        "maps = open('/proc/self/maps').read()\n"
        "print(json.dumps({**msgspec.to_builtins(core.engine.BLAS), 'early': early, 'mapped': 'libopenblas' in maps}))"
    )
    child = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MIRROR_SD_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(child.stdout)


def test_the_systems_openblas_is_checked_then_loaded_before_mlx(tmp_path):
    report = prepared_in_a_child(tmp_path)
    assert report["verdict"] == "checked"
    assert report["early"]
    assert report["mapped"]


def test_these_tests_run_on_it():
    """Else they would take twenty times as long; whoever imports mlx before core.engine is found here."""
    assert core.engine.BLAS.verdict == ("switched off" if os.environ.get(blas.SWITCH) == "stock" else "checked")


def test_mlx_imported_first_is_told(tmp_path):
    code = "import mlx.core, core.engine; print(core.engine.BLAS.verdict)"
    environment = {**os.environ, "MIRROR_SD_HOME": str(tmp_path)}
    child = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert child.stdout == "too late\n"


def test_the_check_is_remembered(tmp_path):
    prepared_in_a_child(tmp_path)
    remembered = tmp_path / "cache" / "blas-check.json"
    (key,) = json.loads(remembered.read_text())
    remembered.write_text(json.dumps({key: False}))
    assert prepared_in_a_child(tmp_path)["verdict"] == "wrong results"


def test_a_damaged_memory_of_the_check_is_made_anew(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "blas-check.json").write_text("{")
    assert prepared_in_a_child(tmp_path)["verdict"] == "checked"


def test_it_can_be_switched_off(tmp_path):
    report = prepared_in_a_child(tmp_path, MIRROR_SD_BLAS="stock")
    assert report["verdict"] == "switched off"
    assert not report["mapped"]


def test_a_library_that_cannot_be_loaded_is_not_trusted(tmp_path):
    fake = tmp_path / "libopenblas.so.0"
    fake.write_bytes(b"\x7fELF but no library")
    assert not blas._products_are_right(fake)


def test_a_library_with_wrong_products_is_not_trusted(tmp_path):
    source, library = tmp_path / "wrong.c", tmp_path / "libwrong.so"
    source.write_text("void cblas_sgemm(void) {}\nvoid cblas_sgemv(void) {}\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    assert not blas._products_are_right(library)


def test_without_a_library_there_is_a_hint(monkeypatch):
    monkeypatch.setattr(blas, "_CANDIDATES", ("/nonexistent/lib*.so",))
    monkeypatch.delenv(blas.SWITCH, raising=False)
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    report = blas.prepare()
    assert (report.name, report.verdict) == ("stock", "not found")
    assert "libopenblas" in report.hint
