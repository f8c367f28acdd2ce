"""Our own kernels in a process with MLX: right products, and passes whose rows do not depend on their number."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

import core.engine
from helpers.tiny import tiny_target

pytestmark = pytest.mark.skipif(not core.engine.BLAS.kernels, reason="our own kernels are not used here")

WIDTHS = (*range(2, 18), 24, 31, 32)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def through_mlx(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with mx.stream(mx.cpu):
        return np.array(mx.array(a) @ mx.array(b))


@pytest.mark.parametrize("rows", [*range(1, 41)])
@pytest.mark.parametrize(("inner", "columns"), [(1, 5), (37, 1), (64, 203), (203, 64), (577, 391)])
def test_products_through_mlx_are_right(rows, inner, columns):
    a, b = random(rows, inner), random(inner, columns, seed=1)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for right in (mx.array(b), mx.array(np.ascontiguousarray(b.T)).T):
        np.testing.assert_allclose(np.array(mx.array(a) @ right), exact, atol=2e-4)


def test_the_product_of_a_whole_head_is_right():
    """Large enough for every thread to have many parts of it."""
    a, b = random(7, 1003), random(20011, 1003, seed=1)
    product = through_mlx(a, b.T)
    np.testing.assert_allclose(product, a.astype(np.float64) @ b.T.astype(np.float64), atol=1e-3)


_HASH = """
import hashlib, sys
import core.engine, mlx.core as mx, numpy as np
random = np.random.default_rng(0)
a, b = (mx.array(random.standard_normal(shape, dtype=np.float32)) for shape in ((8, 576), (6000, 576)))
print(core.engine.BLAS.kernels, hashlib.sha256(np.array(a @ b.T)).hexdigest())
"""


def test_the_number_of_threads_changes_no_bit():
    found = set()
    for threads in ("1", "2", "3"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads}
        child = subprocess.run(
            [sys.executable, "-c", _HASH], env=environment, capture_output=True, text=True, check=True
        )
        found.add(child.stdout)
    assert found == {f"{core.engine.BLAS.kernels} {child.stdout.split()[1]}\n"}


_FORK = """
import ctypes, os, sys
import numpy as np
library = ctypes.CDLL(sys.argv[1])
random = np.random.default_rng(0)
a, b = (random.standard_normal(shape, dtype=np.float32) for shape in ((4, 576), (3000, 576)))
def product():
    c = np.zeros((4, 3000), np.float32)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (a, b, c)]
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    library.cblas_sgemm(101, 111, 112, 4, 3000, 576, one, pointers[0], 576, pointers[1], 576, zero, pointers[2], 3000)
    return c.tobytes()
before = product()
child = os.fork()
if child == 0:
    os._exit(0 if [product() for _ in range(50)] == [before] * 50 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_multiplies_too():
    """It has none of the threads that its parent had."""
    subprocess.run([sys.executable, "-c", _FORK, core.engine.BLAS.kernels_path], check=True, timeout=60)


def rows_of_passes(target, context: int, widths) -> dict[int, list[np.ndarray]]:
    """By width, the logits and taps of each of the first rows after a context."""
    tokens = mx.array(np.random.default_rng(2).integers(0, target.vocab_size, context + max(widths)))
    cache = target.make_cache()
    mx.eval(target.forward(tokens[:context], cache).logits)
    found = {}
    for width in widths:
        rows = []
        for first in range(0, max(widths), width):
            count = min(width, max(widths) - first)
            passed = target.forward(tokens[context + first : context + first + count], cache)
            rows.append(np.concatenate([np.array(passed.logits), *(np.array(tap) for tap in passed.taps)], axis=1))
        found[width] = np.concatenate(rows)
        for layer in cache:
            layer.trim(max(widths))
    return found


def assert_bits_do_not_depend_on_the_width(target, context: int) -> None:
    found = rows_of_passes(target, context, [1, *WIDTHS])
    differing = [width for width in WIDTHS if not np.array_equal(found[width], found[1])]
    assert differing == []


@pytest.mark.parametrize("context", [1, 5, 40])
def test_a_row_of_a_pass_of_the_tiny_target_is_the_same_at_every_width(context):
    assert_bits_do_not_depend_on_the_width(tiny_target(), context)


@pytest.mark.parametrize("context", [3, pytest.param(300, marks=pytest.mark.slow)])
def test_a_row_of_a_pass_of_the_demo_target_is_the_same_at_every_width(demo, context):
    assert demo.target.dtype == mx.float32
    assert_bits_do_not_depend_on_the_width(demo.target, context)


def test_column_major_and_transposed_products_go_the_same_way():
    """As others in the process may call it: a matrix in the other order is its transpose."""
    a, b = random(3, 50), random(50, 20, seed=1)
    library = ctypes.CDLL(core.engine.BLAS.kernels_path)
    c = np.zeros((3, 20), np.float32, order="F")
    columns = [np.asfortranarray(matrix) for matrix in (a, b)]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*columns, c)]
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    library.cblas_sgemm(102, 111, 111, 3, 20, 50, one, pointers[0], 3, pointers[1], 50, zero, pointers[2], 3)
    np.testing.assert_allclose(c, a @ b, atol=1e-4)
