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


def test_kernels_of_old_processors_are_not_accepted_on_a_new_one(tmp_path):
    """As where the library does not know the processor and takes the oldest kernels."""
    if not {"avx2", "fma"} <= blas._cpu_flags() or blas.CORE_TYPE in os.environ:
        pytest.skip("needs a processor with AVX2 and a free choice of kernels")
    report = prepared_in_a_child(tmp_path)
    chosen = blas._core_of_right_products(Path(str(report["path"])), str(report["core_type"]))
    assert chosen.lower() in blas._GOOD_CORES


def test_the_users_choice_of_kernels_is_left_alone(tmp_path):
    report = prepared_in_a_child(tmp_path, OPENBLAS_CORETYPE="Prescott")
    assert (report["verdict"], report["core_type"]) == ("checked", "")


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
    remembered.write_text(json.dumps({key: None}))
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
    assert blas._find_core_type(fake) is None


def test_a_library_with_wrong_products_is_not_trusted(tmp_path):
    source, library = tmp_path / "wrong.c", tmp_path / "libwrong.so"
    source.write_text(
        "void cblas_sgemm(void) {}\nvoid cblas_sgemv(void) {}\n"
        'const char *openblas_get_corename(void) { return "Haswell"; }\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    assert blas._find_core_type(library) is None


def test_without_a_library_there_is_a_hint(monkeypatch):
    monkeypatch.setattr(blas, "_CANDIDATES", ("/nonexistent/lib*.so",))
    monkeypatch.delenv(blas.SWITCH, raising=False)
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    report = blas.prepare()
    assert (report.name, report.verdict) == ("stock", "not found")
    assert "libopenblas" in report.hint
