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
    """What a fresh process reports, what was loaded before mlx.core was, and whose product MLX will find."""
    code = (
        "import core.engine, ctypes, json, msgspec, sys\n"
        "early, loaded = 'mlx.core' not in sys.modules, 'ane' in sys.modules\n"
        "maps = open('/proc/self/maps').read()\n"
        "address = lambda library: ctypes.cast(getattr(library, 'cblas_sgemm', None), ctypes.c_void_p).value\n"
        "paths = {'ours': core.engine.BLAS.kernels_path, 'system': core.engine.BLAS.path}\n"
        "import mlx.core\n"
        "first = [name for name, path in paths.items()\n"
        "         if path and address(ctypes.CDLL(None)) == address(ctypes.CDLL(path))]\n"
        "print(json.dumps({**msgspec.to_builtins(core.engine.BLAS), 'early': early, 'ane': loaded,\n"
        "                  'mapped': 'libopenblas' in maps, 'first': first}))"
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


def test_our_own_kernels_come_first_without_their_package(tmp_path):
    report = prepared_in_a_child(tmp_path)
    assert report["first"] == ["ours"]
    assert report["kernels"]
    assert not report["ane"]
    said = f"{report['kernels']}, for up to {report['kernel_rows']} rows, same result at every width"
    assert core.engine.BLAS.own_kernels == said


def test_kernels_of_old_processors_are_not_accepted_on_a_new_one(tmp_path):
    """As where the library does not know the processor and takes the oldest kernels."""
    if not {"avx2", "fma"} <= blas._cpu_flags() or blas.CORE_TYPE in os.environ:
        pytest.skip("needs a processor with AVX2 and a free choice of kernels")
    report = prepared_in_a_child(tmp_path)
    chosen = blas._core_of_right_products(Path(str(report["path"])), None, str(report["core_type"]))
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
    remembered.write_text(json.dumps({key: [False, "", False]}))
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
    assert blas._find_core_type(fake, None) is None


def built(folder: Path, source: str) -> Path:
    """A shared library of this C source."""
    library = folder / "built.so"
    (folder / "source.c").write_text(source)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(folder / "source.c")], check=True)
    return library


def test_a_library_with_wrong_products_is_not_trusted(tmp_path):
    library = built(
        tmp_path,
        "void cblas_sgemm(void) {}\nvoid cblas_sgemv(void) {}\n"
        'const char *openblas_get_corename(void) { return "Haswell"; }\n',
    )
    assert blas._find_core_type(library, None) is None


_KERNELS = """
int mirror_sd_most_rows(void) { return 32; }
const char *mirror_sd_instruction_set(void) { return "C"; }
void mirror_sd_set_sgemm(void *other) {}
void cblas_sgemm(int layout, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                 int lda, const float *b, int ldb, float beta, float *c, int ldc) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int l = 0; l < k; l++) {
                int at = %s;
                sum += a[i * lda + at] * (transpose_b == 112 ? b[j * ldb + at] : b[at * ldb + j]);
            }
            c[i * ldc + j] = sum;
        }
}
"""


@pytest.mark.parametrize(
    ("order", "trusted"),
    [("l", True), ("m > 1 ? k - 1 - l : l", False), ("0", False)],
    ids=["right", "right with bits that depend on the width", "wrong"],
)
def test_kernels_are_trusted_when_they_are_right_to_the_bit_at_every_width(tmp_path, order, trusted):
    kernels = built(tmp_path, _KERNELS % order)
    assert blas._find_choice(None, kernels) == (False, "", trusted)


def test_wrong_kernels_are_left_out_and_openblas_stays(tmp_path):
    choice = blas._find_choice(blas.find_library(), built(tmp_path, _KERNELS % "0"))
    assert (choice.openblas, choice.kernels) == (True, False)


def test_what_was_left_out_is_told(tmp_path):
    prepared_in_a_child(tmp_path)
    remembered = tmp_path / "cache" / "blas-check.json"
    (key,) = json.loads(remembered.read_text())
    remembered.write_text(json.dumps({key: [True, "", False]}))
    report = prepared_in_a_child(tmp_path)
    assert (report["verdict"], report["kernels"], report["first"]) == ("checked", "", ["system"])
    assert "left out" in str(report["hint"])


def test_without_openblas_our_kernels_compute_everything(monkeypatch):
    monkeypatch.setattr(blas, "_CANDIDATES", ("/nonexistent/lib*.so",))
    monkeypatch.delenv(blas.SWITCH, raising=False)
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    report = blas.prepare()
    assert (report.name, report.verdict, report.path) == ("Mirror SD", "checked", "")
    assert "libopenblas" in report.hint
    assert "for everything" in report.own_kernels


def test_without_any_library_there_is_a_hint(monkeypatch):
    monkeypatch.setattr(blas, "_CANDIDATES", ("/nonexistent/lib*.so",))
    monkeypatch.setattr(blas, "find_kernels", lambda: None)
    monkeypatch.delenv(blas.SWITCH, raising=False)
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    report = blas.prepare()
    assert (report.name, report.verdict) == ("stock", "not found")
    assert "libopenblas" in report.hint
