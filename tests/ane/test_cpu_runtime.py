"""The runtime for processors: what it makes of a draft's programs, judged in numpy and by MLX; and its buffers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import ane
from core.bench.prompts import PROMPTS
from core.pairs import demo_pair
from helpers.packaged_draft import MlxTwin, PackagedDraft, relative_error
from helpers.random_drafts import random_weights, write_draft
from helpers.tiny import tiny_config

LIMITS = {"fp16": 5e-3, "w8a16": 3e-2}
"""Relative error (Frobenius) of what a layer adds, against the MLX draft."""
SAME_PROGRAM = 2e-3
"""Relative error of a program's results, against numpy."""


class OnProcessor:
    """A loaded program with the face of `helpers.mil.Package`: arrays in, arrays out."""

    def __init__(self, program: ane.Program) -> None:
        self.program = program
        self.outputs = list(program.outputs)

    def run(self, **inputs: Any) -> dict[str, Any]:
        given = {name: array.astype(np.float16) for name, array in inputs.items()}
        results = {name: np.full(shape, np.nan, np.float16) for name, shape in self.program.outputs.items()}
        self.program.run(given, results)
        return results


class OnBoth:
    """A program in numpy and on the processor; remembers how far their results were apart."""

    def __init__(self, package: Any, program: ane.Program) -> None:
        self.package = package
        self.on_processor = OnProcessor(program)
        self.outputs = package.outputs
        self.errors: list[float] = []

    def run(self, **inputs: Any) -> dict[str, Any]:
        expected, got = self.package.run(**inputs), self.on_processor.run(**inputs)
        for name in self.outputs:
            # What a layer adds: its input would hide errors.
            before = np.asarray(inputs["x"]).astype(np.float32) if name == "y" else 0
            self.errors.append(relative_error(got[name] - before, expected[name].astype(np.float32) - before))
        return got


def tapped(demo_target: Any) -> tuple[list[Any], Any]:
    """Features of a conversation's tokens, and an embedded block behind it."""
    target, tokenizer, draft = demo_target
    text = "".join(f"<|im_start|>user\n{text}<|im_end|>\n" for text in PROMPTS[:6])
    ids = tokenizer.encode(text, parse_special=True)
    taps = target.forward(mx.array(ids), target.make_cache()).taps
    block = target.embed(mx.array([ids[-1], *[draft.config.mask_token_id] * (draft.config.block_size - 1)]))
    return [np.array(tap.astype(mx.float32)) for tap in taps], np.array(block.astype(mx.float32))


@pytest.mark.parametrize("precision", LIMITS)
def test_the_demo_draft_on_real_features(tmp_path: Path, demo_target: Any, precision: Any) -> None:
    draft = demo_target[2]
    folder = Path(demo_pair().draft or "")
    options: dict[str, Any] = {"precision": precision, "width": 16, "context": 512}
    packaged = PackagedDraft(folder, tmp_path / "out", draft.config, **options)
    programs = ane.CpuRuntime(threads=2).load(folder, **options)
    both = [
        OnBoth(package, program)
        for package, program in zip([*packaged._ingest.values(), *packaged.layers], programs, strict=True)
    ]
    packaged._ingest, packaged.layers = dict(zip((32, 256), both, strict=False)), both[2:]
    twin = MlxTwin(draft)
    taps, block = tapped(demo_target)
    rows = [tap[:90] for tap in taps]
    packaged.ingest(rows, *twin.tables(0, 90))
    packaged.prefill(rows, *twin.tables(0, 90))
    twin.ingest(rows)
    stream = twin.layer_outputs(block)
    stream[-1] = np.array(draft.norm(mx.array(stream[-1])))
    for layer in range(len(packaged.layers)):
        name = packaged.layers[layer].outputs[0]
        got = packaged.run_layer(layer, stream[layer], *twin.tables(90, len(block)))[name][0, :, 0, : len(block)].T
        before = stream[layer] if name == "y" else 0
        error = relative_error(got - before, stream[layer + 1] - before)
        print(f"layer {layer}: {error:.2g} from MLX, {max(both[layer + 2].errors):.2g} from numpy")
        assert error <= LIMITS[precision]
    print(f"ingest: {max(both[0].errors + both[1].errors):.2g} from numpy")
    assert len(both[1].errors) == 2 * draft.config.num_hidden_layers
    assert max(error for program in both for error in program.errors) <= SAME_PROGRAM


@pytest.fixture(scope="module")
def small_draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tiny_config(num_target_layers=4, target_layer_ids=(1, 2))
    folder: Path = write_draft(tmp_path_factory.mktemp("draft") / "small", config, random_weights(config))
    return folder


@pytest.fixture
def layer(small_draft: Path) -> ane.Program:
    return ane.CpuRuntime().load(small_draft, width=16, context=512)[2]


def random_inputs(program: ane.Program) -> dict[str, Any]:
    random = np.random.default_rng(5)
    return {name: random.standard_normal(shape).astype(np.float16) for name, shape in program.inputs.items()}


def outputs(program: ane.Program, dtype: Any = np.float16) -> dict[str, Any]:
    return {name: np.full(shape, np.nan, dtype) for name, shape in program.outputs.items()}


def run(program: ane.Program, inputs: dict[str, Any]) -> Any:
    results = outputs(program)
    program.run(inputs, results)
    return results["y"]


def test_programs_come_in_the_order_of_use_with_their_shapes(small_draft: Path) -> None:
    programs = ane.CpuRuntime().load(small_draft, width=32, context=512)
    names = [program.name for program in programs]
    assert names[:3] == ["ingest_r32", "ingest_r256", "layer0_w32_c512"]
    hidden = ane.inspect_draft(small_draft).hidden_size
    assert programs[2].inputs["x"] == (1, hidden, 1, 32)
    assert programs[2].inputs["mask"] == (1, 1, 544, 32)
    assert programs[2].outputs == {"y": (1, hidden, 1, 32)}
    assert list(programs[-1].outputs) == ["hidden"]


def test_threads_can_be_set_and_change_no_bit(small_draft: Path) -> None:
    runtime = ane.CpuRuntime(threads=1)
    program = runtime.load(small_draft, width=16, context=512)[2]
    inputs = random_inputs(program)
    one = run(program, inputs)
    for threads in (2, 3):
        runtime.threads = threads
        assert runtime.threads == threads
        np.testing.assert_array_equal(run(program, inputs), one)
    with pytest.raises(ane.AneError, match="threads"):
        runtime.threads = 0
    with pytest.raises(ane.AneError, match="threads"):
        ane.CpuRuntime(0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_buffers_may_have_gaps_which_are_neither_read_nor_written(layer: ane.Program, dtype: Any) -> None:
    inputs = random_inputs(layer)
    expected = run(layer, inputs)
    spread: dict[str, Any] = {}
    for name, array in inputs.items():
        wide = np.full((*array.shape[:2], array.shape[2] + 1, array.shape[3] + 7), np.nan, dtype)
        wide[:, :, :-1, :-7] = array
        spread[name] = wide[:, :, :-1, :-7]
    wide = np.full((*expected.shape[:3], expected.shape[3] + 7), np.nan, dtype)
    layer.run(spread, {"y": wide[..., :-7]})
    np.testing.assert_array_equal(wide[..., :-7], expected)
    assert np.isnan(wide[..., -7:]).all()


def test_axes_may_lie_in_any_order(layer: ane.Program) -> None:
    """The caller's rows first, as the MLX side has them."""
    inputs = random_inputs(layer)
    turned = {name: np.ascontiguousarray(array.swapaxes(1, 3)).swapaxes(1, 3) for name, array in inputs.items()}
    np.testing.assert_array_equal(run(layer, turned), run(layer, inputs))


def test_whole_numbers_are_taken(layer: ane.Program) -> None:
    inputs = {name: array.round() for name, array in random_inputs(layer).items()}
    whole = {name: array.astype(np.int32) for name, array in inputs.items()}
    np.testing.assert_array_equal(run(layer, whole), run(layer, inputs))


BAD: dict[str, tuple[str, Callable[[dict[str, Any], dict[str, Any]], object]]] = {
    "a missing input": ('inputs must be .*"mask".*not', lambda given, _: given.pop("mask")),
    "an unknown output": ("outputs must be", lambda _, results: results.update(z=results["y"])),
    "another shape": ("x must have the shape", lambda given, _: given.update(x=given["x"][..., :8])),
    "another rank": ("x must have the shape", lambda given, _: given.update(x=given["x"][0])),
    "double precision": ('x has elements of type "d"', lambda given, _: given.update(x=given["x"].astype(np.float64))),
    "a negative stride": ("x has a negative", lambda given, _: given.update(x=given["x"][..., ::-1])),
    "int32 as output": (
        'y has elements of type "i"',
        lambda _, r: r.update(y=np.zeros(r["y"].shape, np.int32)),
    ),
    "a read-only output": ("y is read-only", lambda _, results: results["y"].setflags(write=False)),
    "repeated memory as output": ("no tensor in an output", lambda _, r: r.update(y=repeated(r["y"]))),
    "shared memory": ("y shares memory", lambda given, results: results.update(y=given["x"])),
    "an empty array": ("no tensor in an input", lambda given, _: given.update(x=np.zeros((0,), np.float16))),
}


def repeated(array: Any) -> Any:
    return np.lib.stride_tricks.as_strided(array, strides=(0, 2, 0, 0))


@pytest.mark.parametrize("case", BAD)
def test_bad_buffers_are_refused_and_nothing_is_written(layer: ane.Program, case: str) -> None:
    message, spoil = BAD[case]
    inputs, results = random_inputs(layer), outputs(layer)
    kept = results["y"]
    spoil(inputs, results)
    with pytest.raises(ane.AneError, match=message) as raised:
        layer.run(inputs, results)
    assert str(raised.value).endswith(".")
    assert np.isnan(kept).all()


def test_what_lends_no_memory_is_a_type_error(layer: ane.Program) -> None:
    inputs: dict[str, Any] = random_inputs(layer)
    inputs["x"] = 3
    with pytest.raises(TypeError):
        layer.run(inputs, outputs(layer))


def test_bad_requests_are_refused() -> None:
    runtime = ane.CpuRuntime()
    folder = demo_pair().draft or ""
    with pytest.raises(ane.InvalidDraft):
        runtime.load(Path(folder).parent)
    with pytest.raises(ane.AneError, match="17 is no width"):
        runtime.load(folder, width=17)
    precision: Any = "int3"
    with pytest.raises(ane.AneError, match="precision"):
        runtime.load(folder, precision=precision)


def test_other_threads_run_python_while_a_program_runs() -> None:
    """With the interpreter's lock held, the counter would stand still in between."""
    program = ane.CpuRuntime().load(demo_pair().draft or "", width=64, context=512)[1]  # long: 256 rows of taps
    inputs, results = random_inputs(program), outputs(program)
    done = threading.Event()
    between: list[int] = []
    count = 0

    def call() -> None:
        before = count
        program.run(inputs, results)
        between.append(count - before)
        done.set()

    thread = threading.Thread(target=call)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        thread.start()
        while not done.is_set():
            count += 1
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert between[0] > 100


def test_several_threads_may_run_one_program(small_draft: Path) -> None:
    program = ane.CpuRuntime(threads=2).load(small_draft, width=16, context=512)[2]
    inputs = random_inputs(program)
    expected = run(program, inputs)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(run(program, inputs))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_array_equal(result, expected)
