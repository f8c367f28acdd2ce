"""The programs of a draft compute what the draft does in MLX: measured on what each layer adds to its input.

Programs run in numpy (`helpers.mil`), in half precision between operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from core.bench.prompts import PROMPTS
from core.formats.draft_config import DraftConfig
from core.pairs import demo_pair
from helpers.packaged_draft import MlxTwin, PackagedDraft, columns, layer_errors, relative_error
from helpers.random_drafts import SECOND, mlx_draft, random_weights, write_draft
from helpers.tiny import tiny_config

LIMITS = {"fp16": 5e-3, "w8a16": 3e-2}
"""Relative error (Frobenius) of what a layer adds."""

FIVE_TAPS = {"num_target_layers": 36, "target_layer_ids": (1, 9, 17, 25, 33), "rope_theta": 1e6, "rms_norm_eps": 1e-6}
SLIDING, FULL = "sliding_attention", "full_attention"
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
SHAPES: dict[str, dict[str, object]] = {
    "Qwen3-4B": {
        "hidden_size": 320,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 128,
        "intermediate_size": 1216,
        "block_size": 16,
    },
    "Qwen3-8B": {
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "intermediate_size": 1536,
        "block_size": 32,
        "is_causal": True,
    },
    "Qwen3.5-27B": {
        "hidden_size": 64,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "intermediate_size": 17408,  # more than one reduction takes
        "block_size": 16,
        "layer_types": (SLIDING, FULL),
        "sliding_window": 100,
        "rope_scaling": YARN,
    },
    "Qwen3.8-27B": {
        **SECOND,
        "hidden_size": 320,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "intermediate_size": 1088,
        "conv_group_size": 16,
        "rope_theta": 1e7,
        "layer_types": (SLIDING, SLIDING),
        "sliding_window": 100,
        "is_causal": False,
    },
    "three taps": {**SECOND, "conv_kernel_size": 3, "hidden_size": 96, "conv_group_size": 8},
    "gpt-oss-20b": {
        "attention_bias": True,
        "hidden_size": 180,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "intermediate_size": 480,
        "rope_theta": 150000.0,
        "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 128},
    },
}


def small_config(**changes: object) -> DraftConfig:
    return tiny_config(**{**FIVE_TAPS, **changes})


class Pair:
    """A random draft as packages and in MLX, which get the same rows."""

    def __init__(self, folder: Path, config: DraftConfig, weights: dict[str, mx.array], **options: Any) -> None:
        options = {"precision": "fp16", "width": 16, "context": 512, **options}
        self.packaged = PackagedDraft(write_draft(folder / "draft", config, weights), folder / "out", config, **options)
        self.twin = MlxTwin(mlx_draft(config, weights))
        self.random = np.random.default_rng(3)
        self.config = config

    def rows(self, count: int, size: float = 1.0) -> Any:
        return (self.random.standard_normal((count, self.config.hidden_size)) * size).astype(np.float32)

    def ingest(self, rows: int, size: float = 1.0) -> None:
        taps = [self.rows(rows, size) for _ in self.config.target_layer_ids]
        cos, sin = self.twin.tables(self.packaged.positions, rows)
        self.packaged.ingest(taps, cos, sin)
        self.twin.ingest(taps)

    def errors(self) -> list[float]:
        return layer_errors(self.packaged, self.twin, self.rows(self.config.block_size))

    def layer(self, index: int, block: Any, padding: float = 0.0) -> Any:
        """What the layer's program makes of `block`: [hidden, width]."""
        cos, sin = self.twin.tables(self.packaged.positions, len(block))
        values = self.packaged.run_layer(index, block, cos, sin, padding)
        return values[self.packaged.layers[index].outputs[0]][0, :, 0]


def random_pair(folder: Path, changes: dict[str, object] | None = None, **options: Any) -> Pair:
    config = small_config(**changes or {})
    return Pair(folder, config, random_weights(config), **options)


def tapped(demo_target: Any, texts: Sequence[str]) -> tuple[list[Any], Any]:
    """Features of a conversation's tokens, and an embedded block behind it."""
    target, tokenizer, draft = demo_target
    text = "".join(f"<|im_start|>user\n{text}<|im_end|>\n" for text in texts)
    ids = tokenizer.encode(text, parse_special=True)
    taps = target.forward(mx.array(ids), target.make_cache()).taps
    block = target.embed(mx.array([ids[-1], *[draft.config.mask_token_id] * (draft.config.block_size - 1)]))
    return [np.array(tap.astype(mx.float32)) for tap in taps], np.array(block.astype(mx.float32))


@pytest.mark.parametrize(
    ("conversations", "contexts"),
    [(1, (1, 33)), pytest.param(4, (5, 32, 64, 97, 130), marks=pytest.mark.slow)],
    ids=["two contexts", "twenty contexts"],
)
@pytest.mark.parametrize("precision", LIMITS)
def test_the_demo_draft_on_real_features(
    tmp_path: Path, demo_target: Any, precision: str, conversations: int, contexts: Sequence[int]
) -> None:
    draft = demo_target[2]
    folder = Path(demo_pair().draft or "")
    options = {"precision": precision, "width": 16, "context": 512}
    worst = np.zeros(draft.config.num_hidden_layers)
    for conversation in range(conversations):
        packaged = PackagedDraft(folder, tmp_path / str(conversation), draft.config, **options)
        twin = MlxTwin(draft)
        taps, block = tapped(demo_target, PROMPTS[conversation * 10 : conversation * 10 + 10])
        assert max(abs(tap).max() for tap in taps) > 20_000, "the first rows are the largest"
        for first, end in zip((0, *contexts), contexts, strict=False):
            rows = [tap[first:end] for tap in taps]
            assert len(rows[0]) == end - first
            packaged.ingest(rows, *twin.tables(first, end - first))
            twin.ingest(rows)
            worst = np.maximum(worst, layer_errors(packaged, twin, block))
    print(f"{precision}: largest relative error by layer {np.round(worst, 4)}")
    assert worst.max() <= LIMITS[precision]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", LIMITS)
def test_random_drafts_of_published_shapes(tmp_path: Path, precision: str, shape: str) -> None:
    pair = random_pair(tmp_path, SHAPES[shape], precision=precision, width=32)
    for rows in (1, 40, 150):
        pair.ingest(rows)
        errors = pair.errors()
        print(f"{shape} {precision} after {pair.packaged.positions}: {np.round(errors, 5)}")
        assert max(errors) <= LIMITS[precision]


@pytest.mark.parametrize("size", [1e-3, 300.0, 1e5])
def test_taps_of_any_size(tmp_path: Path, size: float) -> None:
    pair = random_pair(tmp_path)
    pair.ingest(30, size)
    assert max(pair.errors()) <= LIMITS["fp16"]


@pytest.mark.parametrize("size", [3e-3, 400.0, 5000.0])
def test_blocks_of_any_size(tmp_path: Path, size: float) -> None:
    """What a layer adds to 5000 has few digits left in half precision, so the layer's own sum is judged."""
    pair = random_pair(tmp_path)
    pair.ingest(20)
    block = pair.rows(pair.config.block_size, size)
    cos, sin = pair.twin.tables(20, len(block))
    values = pair.packaged.run_layer(0, block, cos, sin)
    attended = np.array(pair.twin.draft.layers[0].self_attn(*attention_inputs(pair, block)))[0]
    conv = next(name for name in reversed(list(values)) if name.startswith("output_conv") and "_0" not in name)
    assert relative_error(values[conv][0, :, 0, : len(block)].T, attended) <= LIMITS["fp16"]


def attention_inputs(pair: Pair, block: Any) -> tuple[Any, Any, Any]:
    layer = pair.twin.draft.layers[0]
    view = pair.twin.draft.views(pair.twin.caches)[0]
    return layer.input_layernorm(mx.array(block)[None]), pair.twin.draft.rope, view


@pytest.mark.parametrize(("context", "rows"), [(512, (480, 25, 6, 1)), (2048, (513, 600))])
def test_contexts_up_to_the_edge_and_with_many_keys(tmp_path: Path, context: int, rows: Sequence[int]) -> None:
    pair = random_pair(tmp_path, {"layer_types": (FULL, SLIDING), "sliding_window": 200}, context=context)
    for count in rows:
        pair.ingest(count)
        assert max(pair.errors()) <= LIMITS["fp16"], pair.packaged.positions
    if context == 512:
        assert pair.packaged.positions == context


def test_without_context_a_block_sees_itself(tmp_path: Path) -> None:
    assert max(random_pair(tmp_path).errors()) <= LIMITS["fp16"]


def test_what_stands_in_masked_columns_changes_nothing(tmp_path: Path) -> None:
    pair = random_pair(tmp_path)
    pair.ingest(40)
    block = pair.rows(pair.config.block_size)
    before = pair.layer(0, block)
    pair.packaged.keys[0, ..., 40:] = pair.random.standard_normal(pair.packaged.keys[0, ..., 40:].shape) * 3
    pair.packaged.values[0, ..., 40:] = 1000
    after = pair.layer(0, block, padding=777.0)
    assert np.isfinite(before).all()
    assert np.isfinite(after).all()
    real = slice(pair.config.block_size)
    np.testing.assert_array_equal(before[:, real], after[:, real])


def test_slots_of_the_context_may_stand_in_any_order(tmp_path: Path) -> None:
    pair = random_pair(tmp_path)
    pair.ingest(512)
    block = pair.rows(pair.config.block_size)
    before = pair.layer(0, block)
    order = pair.random.permutation(512)
    for cached in (pair.packaged.keys, pair.packaged.values):
        cached[0] = cached[0][..., order]
    assert (
        relative_error(pair.layer(0, block) - columns(block, 16)[0, :, 0], before - columns(block, 16)[0, :, 0]) < 1e-3
    )


def test_widths_give_the_same_rows(tmp_path: Path) -> None:
    outputs = []
    for width in (16, 64):
        pair = random_pair(tmp_path / str(width), width=width)
        pair.ingest(40)
        outputs.append(pair.layer(1, pair.rows(pair.config.block_size))[:, : pair.config.block_size])
    assert relative_error(outputs[1], outputs[0]) < 1e-3


@pytest.mark.parametrize("precision", LIMITS)
def test_scaling_heads_of_the_query_projection_changes_nothing(tmp_path: Path, precision: str) -> None:
    """Each head has a norm of its own. One over all heads would pass most other tests."""
    config = small_config(num_attention_heads=8, num_key_value_heads=2, head_dim=16, hidden_size=128)
    changes = []
    for name, exponents in (("plain", [0] * 8), ("scaled", range(-4, 4))):
        weights = random_weights(config)
        scale = mx.repeat(mx.array([2.0**exponent for exponent in exponents]), 16)[:, None]
        for layer in range(2):
            query = f"layers.{layer}.self_attn.q_proj.weight"
            weights[query] = (weights[query] * scale).astype(mx.bfloat16)
        pair = Pair(tmp_path / name, config, weights, precision=precision)
        pair.ingest(50)
        block = pair.rows(config.block_size)
        changes.append(pair.layer(0, block)[:, : config.block_size] - block.T)
    assert relative_error(changes[1], changes[0]) < 2e-3


MISTAKEN_ORDERS = {
    "nothing stands before": lambda right: right * 0,
    "ahead instead of behind": lambda right: right.swapaxes(-1, -2),
    "the first stands before itself": lambda right: right + np.eye(16, dtype=np.float16) * (np.arange(16) == 0),
    "two before": lambda right: right @ right,
}


@pytest.mark.parametrize("mistake", MISTAKEN_ORDERS)
def test_another_order_of_columns_is_far_from_the_draft(
    tmp_path: Path, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = random_pair(tmp_path, {**SHAPES["Qwen3.8-27B"], "block_size": 8})
    pair.ingest(30)
    assert max(pair.errors()) <= LIMITS["fp16"]
    right = PackagedDraft.previous
    monkeypatch.setattr(PackagedDraft, "previous", lambda *args: MISTAKEN_ORDERS[mistake](right(*args)))
    assert min(pair.errors()) > 20 * LIMITS["fp16"]


SECOND_WEIGHTS = (
    "attention_conv.base_kernel",
    "attention_conv.kernel_projection.weight",
    "mlp_conv.base_kernel",
    "mlp_conv.kernel_projection.weight",
)


@pytest.mark.parametrize("name", SECOND_WEIGHTS)
def test_every_side_and_tap_of_a_convolution_counts(tmp_path: Path, name: str) -> None:
    """Each part that is taken away moves the layer far, and programs follow it there."""
    config = small_config(**{**SECOND, "num_hidden_layers": 1, "layer_types": (FULL,)})
    weights, outputs = random_weights(config), []
    for part in (None, *range(4)):
        changed = dict(weights)
        if part is not None:
            tensor = weights[f"layers.0.{name}"]
            rows = tensor.reshape(4, -1)
            kept = mx.arange(4)[:, None] != part
            changed[f"layers.0.{name}"] = (rows * kept.astype(rows.dtype)).reshape(tensor.shape)
        pair = Pair(tmp_path / str(part), config, changed)
        pair.ingest(20)
        assert max(pair.errors()) <= LIMITS["fp16"]
        block = np.random.default_rng(0).standard_normal((8, config.hidden_size)).astype(np.float32)
        outputs.append(pair.layer(0, block)[:, :8])
    assert min(relative_error(other, outputs[0]) for other in outputs[1:]) > 20 * LIMITS["fp16"]


def test_large_weights_of_the_second_generation_stay_in_range(tmp_path: Path) -> None:
    config = small_config(**{**SECOND, "num_hidden_layers": 1, "layer_types": (FULL,)})
    weights = random_weights(config)
    for tensor, size in (("mlp.gate_proj", 8), ("mlp.up_proj", 8), ("self_attn.v_proj", 64)):
        weights[f"layers.0.{tensor}.weight"] *= size
    pair = Pair(tmp_path, config, weights)
    pair.ingest(20)
    assert set(pair.packaged.report.factors) == {"layers.0.mlp.down_proj.weight", "layers.0.self_attn.o_proj.weight"}
    assert max(pair.errors()) <= LIMITS["fp16"]
    block = pair.rows(8)
    cos, sin = pair.twin.tables(20, 8)
    values = pair.packaged.run_layer(0, block, cos, sin)
    operations = pair.packaged.layers[0].block.operations
    operands = [operation.inputs["x"].arguments[0].name for operation in operations if operation.type == "conv"]
    assert max(abs(values[name]).max() for name in operands) < 4094


def test_a_large_program_of_ingest_gives_the_same_rows(tmp_path: Path) -> None:
    pair = random_pair(tmp_path)
    taps = [pair.rows(200) for _ in pair.config.target_layer_ids]
    cos, sin = pair.twin.tables(0, 200)
    pair.packaged.ingest(taps, cos, sin)
    keys, values = pair.packaged.prefill(taps, cos, sin)
    assert relative_error(keys, pair.packaged.keys[..., :200]) < 1e-3
    assert relative_error(values, pair.packaged.values[..., :200]) < 1e-3
