"""Packages on disk: other people's tools read them, the same draft gives the same bytes, and no build leaves a part."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any

import coremltools as ct
import mlx.core as mx
import numpy as np
import pytest
from coremltools.converters.mil.frontend.milproto.load import load as load_mil
from coremltools.converters.mil.mil import types

import ane
from helpers.mil import Package, declared
from helpers.random_drafts import SECOND, random_weights, small_draft, write_draft
from helpers.tiny import tiny_config

CONTEXT = 512


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def build(draft: Path, out: Path, **options: Any) -> ane.BuildReport:
    return ane.build_packages(draft, out, **{"width": 16, "context": CONTEXT, **options})


def inferred_types(folder: Path) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """What coremltools makes of the program: it infers all types anew from the inputs'."""
    model = ct.models.MLModel(str(folder), skip_model_load=True)
    spec = model.get_spec()
    program = load_mil(spec, specification_version=spec.specificationVersion, file_weights_dir=model.weights_dir)
    outputs = [value for operation in program.functions["main"].operations for value in operation.outputs]
    return {
        value.name: (types.nptype_from_builtin(value.dtype), tuple(value.shape))
        for value in outputs
        if value.dtype is not types.str
    }


@pytest.mark.parametrize("precision", ["w8a16", "fp16"])
@pytest.mark.parametrize(
    ("width", "context", "changes"),
    [
        (16, 512, {}),
        (64, 2048, {"num_key_value_heads": 4}),
        (32, 4096, {"num_key_value_heads": 1, "intermediate_size": 16448, "block_size": 32}),
        (16, 512, SECOND),
        (64, 2048, {**SECOND, "conv_kernel_size": 3, "conv_group_size": 1, "attention_bias": True}),
    ],
)
def test_coremltools_loads_every_package_and_infers_the_same_types(
    tmp_path: Path, precision: str, width: int, context: int, changes: dict[str, object]
) -> None:
    draft = small_draft(tmp_path / "draft", **changes)
    report = build(draft, tmp_path / "out", precision=precision, width=width, context=context)
    assert [package.program for package in report.packages] == [
        "ingest_r32",
        "ingest_r256",
        f"layer0_w{width}_c{context}",
        f"layer1_w{width}_c{context}",
    ]
    for package in report.packages:
        inferred = inferred_types(package.path)
        outputs = [output for operation in Package(package.path).block.operations for output in operation.outputs]
        ours = {output.name: declared(output.type) for output in outputs}
        ours = {name: kind for name, kind in ours.items() if kind[0] is not np.str_}
        assert {name: inferred[name] for name in ours} == ours


def test_a_package_is_for_macos_13_and_takes_and_gives_half_precision(tmp_path: Path) -> None:
    for package in build(small_draft(tmp_path / "draft"), tmp_path / "out").packages:
        spec = Package(package.path).spec
        assert spec.specificationVersion == 7
        assert spec.mlProgram.functions["main"].opset == "CoreML6"
        features = [*spec.description.input, *spec.description.output]
        assert {feature.type.multiArrayType.dataType for feature in features} == {65552}
        assert package.bytes == sum(len(data) for data in contents(package.path).values())


def test_weights_are_the_drafts_within_half_a_step(tmp_path: Path) -> None:
    config = tiny_config()
    weights = random_weights(config)
    out = tmp_path / "out"
    report = build(write_draft(tmp_path / "draft", config, weights), out, precision="w8a16")
    values = Package(report.packages[2].path).run_weights()
    for name, tensor in (
        ("mlp_constexpr_affine_dequantize", "mlp.gate_proj"),
        ("output_constexpr", "self_attn.o_proj"),
    ):
        got = next(value for key, value in values.items() if key.startswith(name))[:, :, 0, 0].astype(np.float32)
        expected = np.array(weights[f"layers.0.{tensor}.weight"].astype(mx.float32))
        if tensor == "self_attn.o_proj":  # its columns come by key-value head, then channel, then head of the group
            expected = expected.reshape(32, 2, 2, 8).transpose(0, 1, 3, 2).reshape(32, 32)
        step = abs(expected).max(axis=1, keepdims=True) / 127
        rounding = abs(expected) * 2**-10  # of the scale, and of the value
        assert (abs(got - expected) <= step / 2 + rounding).all()
        error = np.linalg.norm(got - expected) / np.linalg.norm(expected)
        assert report.relative_errors[f"layers.0.{tensor}.weight"] == pytest.approx(error, rel=0.02)


def test_the_same_draft_gives_the_same_bytes(tmp_path: Path) -> None:
    draft = small_draft(tmp_path / "draft")
    build(draft, tmp_path / "first")
    build(draft, tmp_path / "second")
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_type_and_files_of_the_weights_do_not_matter(tmp_path: Path, dtype: mx.Dtype) -> None:
    config = tiny_config()
    weights = {name: array.astype(dtype) for name, array in random_weights(config).items()}
    build(write_draft(tmp_path / "one", config, random_weights(config)), tmp_path / "out of one")
    build(write_draft(tmp_path / "many", config, weights, shards=3), tmp_path / "out of many")
    assert contents(tmp_path / "out of one") == contents(tmp_path / "out of many")


def test_progress_counts_to_the_end(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    draft = small_draft(tmp_path / "draft")
    build(draft, tmp_path / "out", progress=lambda *told: seen.append(told))
    names = ["ingest_r32", "ingest_r256", "layer0", "layer1", ""]
    assert seen == [(name, done, 4) for done, name in enumerate(names)]


@pytest.mark.parametrize("when", range(5))
def test_a_build_that_is_stopped_leaves_nothing(tmp_path: Path, when: int) -> None:
    def stop(_name: str, done: int, _total: int) -> None:
        if done == when:
            raise KeyboardInterrupt

    draft = small_draft(tmp_path / "draft")
    with pytest.raises(KeyboardInterrupt):
        build(draft, tmp_path / "out", progress=stop)
    assert os.listdir(tmp_path) == ["draft"]


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    draft = small_draft(tmp_path / "draft")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
        with pytest.raises(ane.WriteFailed, match="cannot be written to"):
            build(draft, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert os.listdir(tmp_path) == ["draft"]


def test_what_is_there_stays(tmp_path: Path) -> None:
    draft = small_draft(tmp_path / "draft")
    out = tmp_path / "out"
    out.mkdir()
    (out / "file").write_text("text")
    for place in (out, out / "file", out / "file" / "below"):
        with pytest.raises(ane.WriteFailed):
            build(draft, place)
    assert contents(out) == {"file": b"text"}


def test_powers_of_two_keep_activations_of_large_weights_below_4094(tmp_path: Path) -> None:
    config = tiny_config(num_hidden_layers=1, layer_types=("full_attention",))
    weights = random_weights(config)
    for tensor, size in (("mlp.gate_proj", 64), ("mlp.up_proj", 64), ("self_attn.v_proj", 2048)):
        weights[f"layers.0.{tensor}.weight"] *= size
    report = build(write_draft(tmp_path / "draft", config, weights), tmp_path / "out", precision="fp16")
    assert all(np.log2(factor) == round(np.log2(factor)) < 0 for factor in report.factors.values())
    assert list(report.factors) == ["layers.0.mlp.down_proj.weight", "layers.0.self_attn.o_proj.weight"]
    package = Package(report.packages[2].path)
    random = np.random.default_rng(0)
    inputs = {name: random.standard_normal(shape) * 3 for name, (_, shape) in package.inputs.items()}
    values = package.run(**inputs)
    operands = [op.inputs["x"].arguments[0].name for op in package.block.operations if op.type == "conv"]
    assert max(abs(values[name]).max() for name in operands) < 4094
    assert np.isfinite(values["hidden"]).all()


def test_inspecting_a_draft_gives_its_config(tmp_path: Path) -> None:
    sliding = {"layer_types": ("sliding_attention", "full_attention"), "sliding_window": 64, "is_causal": False}
    info = ane.inspect_draft(small_draft(tmp_path / "draft", **sliding))
    config = tiny_config(**sliding)
    for field in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"):
        assert getattr(info, field) == getattr(config, field)
    for field in ("intermediate_size", "block_size", "sliding_window", "is_causal"):
        assert getattr(info, field) == getattr(config, field)
    assert info.rms_norm_eps == pytest.approx(config.rms_norm_eps)
    assert info.target_layer_ids == list(config.target_layer_ids)
    assert info.sliding == [True, False]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"width": 48}, "48 is no width"),
        ({"context": 1000}, "1000 is no size of a context"),
        ({"precision": "int4"}, '"int4" is no precision'),
    ],
)
def test_a_size_that_there_is_not_is_said(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    draft = small_draft(tmp_path / "draft")
    with pytest.raises(ane.AneError, match=sentence):
        build(draft, tmp_path / "out", **options)
    assert os.listdir(tmp_path) == ["draft"]


def test_a_block_must_fit_into_the_width(tmp_path: Path) -> None:
    draft = small_draft(tmp_path / "draft", block_size=32)
    with pytest.raises(ane.AneError, match="blocks have 32 rows, more than a program of width 16"):
        build(draft, tmp_path / "out")
