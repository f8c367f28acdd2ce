"""A draft at work on the processor: against the MLX draft, across the edges of its context, and with branches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import ane
from core.bench.prompts import PROMPTS
from core.formats.draft_config import DraftConfig
from core.pairs import demo_pair
from helpers.packaged_draft import relative_error
from helpers.random_drafts import SECOND, packed, random_weights, unpacked, write_draft
from helpers.running_draft import SideBySide, random_pair, random_rows, random_taps
from helpers.tiny import tiny_config

LIMITS = {"fp16": 5e-3, "w8a16": 3e-2}
"""Relative error (Frobenius) of what a layer adds."""
WHOLE = 1e-2
"""Relative error of a whole draft of two layers in fp16."""
CONTEXT, KEPT_FIRST = 512, 64
SLIDING, FULL = "sliding_attention", "full_attention"

CONFIG = tiny_config(
    hidden_size=96, head_dim=32, intermediate_size=192, num_target_layers=8, target_layer_ids=(1, 4, 6), block_size=8
)


def kept_positions(length: int) -> list[int]:
    """The first eighth of the context and the newest positions."""
    if length <= CONTEXT:
        return list(range(length))
    return [*range(KEPT_FIRST), *range(length - (CONTEXT - KEPT_FIRST), length)]


@pytest.fixture
def pair(tmp_path: Path) -> SideBySide:
    return random_pair(tmp_path, CONFIG, random_weights(CONFIG))


@pytest.mark.parametrize("precision", LIMITS)
def test_the_demo_draft_on_real_features_at_20_lengths(demo_target: Any, precision: Any) -> None:
    target, tokenizer, draft = demo_target
    pair = SideBySide(Path(demo_pair().draft or ""), draft, precision=precision, width=16, context=512)
    text = "".join(f"<|im_start|>user\n{prompt}<|im_end|>\n" for prompt in PROMPTS[:10])
    ids = tokenizer.encode(text, parse_special=True)
    step = len(ids) // 21
    taps = [np.array(tap) for tap in target.forward(mx.array(ids), target.make_cache()).taps]
    assert max(abs(tap).max() for tap in taps) > 20_000, "the first rows are large"
    masks = [draft.config.mask_token_id] * (draft.config.block_size - 1)
    worst: list[float] = []
    for first in range(0, 20 * step, step):
        pair.ingest([tap[first : first + step] for tap in taps])
        anchor = ids[first + step]
        worst.append(max(pair.layer_errors(np.array(target.embed(mx.array([anchor, *masks]))))))
    print(f"{precision}: {max(worst):.2g}")
    assert len(worst) == 20
    assert max(worst) <= LIMITS[precision]


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}},
        {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 256}},
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"layer_types": (SLIDING, FULL), "sliding_window": 40},
        {"layer_types": (SLIDING, SLIDING), "sliding_window": 40, "is_causal": False},
        {"is_causal": True},
        {"attention_bias": True},
        {**SECOND, "layer_types": (SLIDING, SLIDING), "sliding_window": 40, "is_causal": False},
        {**SECOND, "conv_kernel_size": 3, "attention_bias": True},
        {"num_hidden_layers": 8, "layer_types": (FULL,) * 8},
    ],
    ids=[
        *("yarn", "llama3", "linear", "sliding", "sliding, not causal", "causal"),
        *("biases", "second generation", "second generation with biases and three taps", "eight layers"),
    ],
)
def test_every_kind_of_layer_and_rotation(tmp_path: Path, changes: dict[str, object]) -> None:
    config = tiny_config(**{**{name: getattr(CONFIG, name) for name in CONFIG.__struct_fields__}, **changes})
    pair = random_pair(tmp_path, config, random_weights(config))
    for rows in (3, 300, 1, 100):
        pair.ingest(random_taps(config, rows, seed=rows))
        assert max(pair.layer_errors(random_rows(config, 8))) <= LIMITS["fp16"]


def test_beyond_its_context_a_block_sees_the_first_and_the_newest_positions(pair: SideBySide) -> None:
    block, own = random_rows(CONFIG, 8), np.ones((8, 8), bool)
    length = 0
    for rows in (500, 12, 1, 200, 300):
        pair.ingest(random_taps(CONFIG, rows, seed=rows))
        length += rows
        positions = np.arange(length, length + 8)
        expected = pair.expected(block, positions, own, kept_positions(length))
        assert relative_error(pair.run(block), expected) <= WHOLE
    all_of_it = pair.expected(block, positions, own, list(range(length)))
    assert relative_error(pair.run(block), all_of_it) > 2 * WHOLE, "the rest would have been seen"


@pytest.mark.parametrize("kept", [1100, 900, 700, 512, 300, 64, 5, 0])
def test_after_a_cut_a_block_sees_what_it_would_have_seen_before(pair: SideBySide, tmp_path: Path, kept: int) -> None:
    taps = random_taps(CONFIG, 1200)
    block = random_rows(CONFIG, 8)
    if kept:
        pair.running.ingest([tap[:kept] for tap in taps])
    expected = pair.run(block)
    pair.running.ingest([tap[kept:] for tap in taps])
    pair.running.trim_to(kept)
    assert pair.running.length == kept
    np.testing.assert_array_equal(pair.run(block), expected)
    pair.running.ingest([tap[kept : kept + 30] for tap in taps])
    again = ane.Draft(
        tmp_path / "draft", ane.CpuRuntime().load(tmp_path / "draft", precision="fp16", width=16, context=512)
    )
    again.ingest([tap[: kept + 30] for tap in taps])
    hidden = np.empty_like(block)
    again.run(block, range(kept + 30, kept + 38), hidden)
    np.testing.assert_array_equal(pair.run(block), hidden)


def test_how_rows_are_grouped_changes_no_bit(pair: SideBySide) -> None:
    taps, block = random_taps(CONFIG, 300), random_rows(CONFIG, 8)
    pair.running.ingest(taps)
    together = pair.run(block)
    pair.running.trim_to(0)
    for first, last in ((0, 1), (1, 34), (34, 299), (299, 300)):
        pair.running.ingest([tap[first:last] for tap in taps])
    np.testing.assert_array_equal(pair.run(block), together)


def test_branches_side_by_side_are_what_each_is_alone(tmp_path: Path) -> None:
    """Blocks of several lengths and positions, each of which sees the context and itself."""
    pair = random_pair(tmp_path, CONFIG, random_weights(CONFIG), width=32)
    pair.ingest(random_taps(CONFIG, 90))
    branches = [(90, 8), (90, 5), (92, 7), (93, 4), (91, 8)]
    embedded = [random_rows(CONFIG, rows, seed=first) for first, rows in branches]
    positions = [first + i for first, rows in branches for i in range(rows)]
    owner = np.repeat(np.arange(len(branches)), [rows for _, rows in branches])
    own = owner[:, None] == owner[None]
    together = pair.run(np.concatenate(embedded), positions, own)
    for branch, (first, rows) in enumerate(branches):
        alone = pair.run(embedded[branch], range(first, first + rows))
        assert relative_error(together[owner == branch], alone) <= 2e-3
    expected = pair.expected(np.concatenate(embedded), positions, own, list(range(90)))
    assert relative_error(together, expected) <= WHOLE


@pytest.mark.parametrize("taps", [2, 3])
def test_branches_of_the_second_generation_do_not_run_into_each_other(tmp_path: Path, taps: int) -> None:
    """Rows of one branch stand before each other; the first of a branch has nothing before it."""
    config = second(conv_kernel_size=taps)
    pair = random_pair(tmp_path, config, random_weights(config), width=32)
    pair.ingest(random_taps(config, 90))
    branches = [8, 5, 7, 4, 8]
    embedded = [random_rows(config, rows, seed=branch) for branch, rows in enumerate(branches)]
    positions = [90 + row for rows in branches for row in range(rows)]
    owner = np.repeat(np.arange(len(branches)), branches)
    together = pair.run(np.concatenate(embedded), positions, owner[:, None] == owner[None])
    views = pair.twin.draft.views(pair.twin.caches)
    for branch, block in enumerate(embedded):
        alone = pair.run(block)
        assert relative_error(together[owner == branch], alone) <= 2e-3
        in_mlx = np.array(pair.twin.draft(mx.array(block)[None], views)[0])
        assert relative_error(together[owner == branch], in_mlx) <= WHOLE
    shuffled = np.random.default_rng(1).permutation(len(positions))
    apart = pair.run(
        np.concatenate(embedded)[shuffled],
        [positions[column] for column in shuffled],
        owner[shuffled][:, None] == owner[shuffled][None],
    )
    assert relative_error(apart, together[shuffled]) <= 2e-3, "columns of a block may stand in any order"


def test_what_stands_beside_a_block_of_the_second_generation_changes_nothing(tmp_path: Path) -> None:
    config = second()
    pair = random_pair(tmp_path, config, random_weights(config))
    pair.running.ingest(random_taps(config, 20))
    few = random_rows(config, 3)
    expected = pair.run(few)
    pair.run(random_rows(config, 16, size=1000.0))
    np.testing.assert_array_equal(pair.run(few), expected)


def second(**changes: object) -> DraftConfig:
    fields = {name: getattr(CONFIG, name) for name in CONFIG.__struct_fields__}
    return tiny_config(**{**fields, **SECOND, **changes})


@pytest.mark.parametrize("generation", [{}, SECOND], ids=["first", "second"])
@pytest.mark.parametrize(("bits", "group_size"), [(8, 32), (4, 32), (3, 32), (6, 32), (5, 32), (2, 32), (4, 64)])
def test_a_packed_draft_computes_what_it_is_packed_from(
    tmp_path: Path, bits: int, group_size: int, generation: dict[str, object]
) -> None:
    config = tiny_config(hidden_size=64, intermediate_size=128, num_attention_heads=8, **generation)
    weights = packed(random_weights(config), bits, group_size)
    pair = random_pair(tmp_path, config, unpacked(weights, bits, group_size))
    folder = write_draft(tmp_path / "packed", config, weights)
    assert any(array.dtype == mx.uint32 for array in weights.values())
    running = ane.Draft(folder, ane.CpuRuntime().load(folder, precision="fp16", width=16, context=512))
    block, taps = random_rows(config, 8), random_taps(config, 30)
    pair.ingest(taps)
    running.ingest(taps)
    hidden = np.empty_like(block)
    running.run(block, range(30, 38), hidden)
    np.testing.assert_array_equal(hidden, pair.run(block))
    assert max(pair.layer_errors(block)) <= LIMITS["fp16"]


def test_a_block_takes_the_narrowest_programs_that_hold_it(pair: SideBySide, tmp_path: Path) -> None:
    folder, runtime = tmp_path / "draft", ane.CpuRuntime()
    narrow, wide = (runtime.load(folder, precision="fp16", width=width, context=CONTEXT) for width in (16, 32))
    both = ane.Draft(folder, [*wide, *narrow[2:]])
    assert both.width == 32
    taps = random_taps(CONFIG, 40)
    pair.running.ingest(taps)
    both.ingest(taps)
    for rows in (8, 32, 8, 17):
        block = random_rows(CONFIG, rows)
        hidden, entered = np.empty_like(block), np.empty_like(block)
        both.run(block, range(40, 40 + rows), hidden)
        both.rows(CONFIG.num_hidden_layers, entered)
        np.testing.assert_array_equal(hidden, entered)
        if rows <= 16:
            np.testing.assert_array_equal(hidden, pair.run(block))
    longer = runtime.load(folder, precision="fp16", width=16, context=2048)
    with pytest.raises(ane.AneError, match="several sizes"):
        ane.Draft(folder, [*wide, *longer[2:]])


def test_columns_that_stand_for_nothing_change_nothing(pair: SideBySide) -> None:
    pair.running.ingest(random_taps(CONFIG, 20))
    few = random_rows(CONFIG, 3)
    expected = pair.run(few)
    pair.run(random_rows(CONFIG, 16, size=1000.0))
    np.testing.assert_array_equal(pair.run(few), expected)


def test_keys_and_values_pass_between_drafts_of_the_same_weights(pair: SideBySide) -> None:
    pair.ingest(random_taps(CONFIG, 700))
    block, layers = random_rows(CONFIG, 8), range(CONFIG.num_hidden_layers)
    expected = pair.run(block)
    shape = (CONFIG.num_key_value_heads, CONFIG.head_dim, 700)
    keys, values = ([np.full(shape, np.nan, np.float32) for _ in layers] for _ in range(2))
    pair.running.read(0, keys, values)
    for layer, cache in enumerate(pair.twin.caches):
        mlx_keys, mlx_values = (np.array(part[0, :, :700]).swapaxes(1, 2) for part in (cache.keys, cache.values))
        assert relative_error(keys[layer], mlx_keys) <= 5e-3
        assert relative_error(values[layer], mlx_values) <= 5e-3
    pair.running.trim_to(10)
    pair.running.append([array[:, :, 10:] for array in keys], [array[:, :, 10:] for array in values])
    np.testing.assert_array_equal(pair.run(block), expected)
    some = [np.full((CONFIG.num_key_value_heads, 5, CONFIG.head_dim), np.nan, np.float16) for _ in range(4)]
    turned = [array.swapaxes(1, 2) for array in some]
    pair.running.read(300, turned[:2], turned[2:])
    np.testing.assert_array_equal(turned[3], values[1][:, :, 300:305])


def test_large_features_are_scaled_row_by_row(pair: SideBySide) -> None:
    taps = random_taps(CONFIG, 40)
    for row, size in enumerate((1e5, 1e-3, 3e4, 1e15)):
        for tap in taps:
            tap[row] *= size
    pair.ingest(taps)
    assert max(pair.layer_errors(random_rows(CONFIG, 8))) <= LIMITS["fp16"]


BAD: dict[str, tuple[str, Callable[[ane.Draft, Any, Any], object]]] = {
    "no columns": ("no tensor", lambda draft, rows, out: draft.run(rows[:0], [], out[:0])),
    "too many columns": (
        "1 to 16 columns, not 17",
        lambda draft, *_: draft.run(np.zeros((17, 96), np.float32), range(17), np.zeros((17, 96), np.float32)),
    ),
    "another hidden size": ("Embeddings must be", lambda draft, rows, out: draft.run(rows[:, :9], range(8), out)),
    "fewer positions": ("Embeddings must be", lambda draft, rows, out: draft.run(rows, range(7), out)),
    "a small result": ("The result must be", lambda draft, rows, out: draft.run(rows, range(8), out[:7])),
    "its own embeddings": ("shares memory", lambda draft, rows, _: draft.run(rows, range(8), rows)),
    "a small mask": ("The mask must be", lambda draft, r, o: draft.run(r, range(8), o, mask=np.ones((7, 7), bool))),
    "a mask of numbers": ("booleans", lambda draft, r, o: draft.run(r, range(8), o, mask=np.ones((8, 8), np.int32))),
    "infinite embeddings": ("Half precision", lambda draft, r, out: draft.run(r * 1e30, range(8), out)),
    "one tap": ("The number of taps must be", lambda draft, rows, _: draft.ingest([rows])),
    "different taps": ("Taps must be", lambda draft, rows, _: draft.ingest([rows, rows, rows[:3]])),
    "a flat tap": ("has 1 axes, not 2", lambda draft, rows, _: draft.ingest([rows[0]] * 3)),
    "a tap with a NaN": ("must be finite", lambda draft, rows, _: draft.ingest([rows, rows * np.nan, rows])),
    "an infinite tap": ("must be finite", lambda draft, rows, _: draft.ingest([rows, rows, rows * np.inf])),
    "keys of one layer": ("number of layers", lambda draft, *_: draft.append([kv(1)], [kv(1)])),
    "fewer values": ("Keys and values must be", lambda draft, *_: draft.append([kv(2)] * 2, [kv(1)] * 2)),
    "unknown positions": ("end of the positions", lambda draft, *_: draft.read(19, [kv(2), kv(2)], [kv(2), kv(2)])),
    "a layer that is not there": ("The layer must be", lambda draft, _, out: draft.rows(3, out)),
}


def kv(positions: int) -> Any:
    return np.zeros((CONFIG.num_key_value_heads, CONFIG.head_dim, positions), np.float16)


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays_are_refused_and_the_draft_goes_on(pair: SideBySide, case: str) -> None:
    pair.running.ingest(random_taps(CONFIG, 20))
    block = random_rows(CONFIG, 8)
    expected = pair.run(block)
    message, call = BAD[case]
    with pytest.raises(ane.AneError, match=message) as raised:
        call(pair.running, block.copy(), np.zeros_like(block))
    assert str(raised.value).endswith(".")
    assert pair.running.length == 20
    np.testing.assert_array_equal(pair.run(block), expected)


def test_programs_of_another_draft_are_refused(tmp_path: Path) -> None:
    write_draft(tmp_path / "draft", CONFIG, random_weights(CONFIG))
    config = tiny_config()
    other = write_draft(tmp_path / "other", config, random_weights(config))
    programs = ane.CpuRuntime().load(other, width=16, context=512)
    for given in (programs, programs[2:], programs[::-1], []):
        with pytest.raises(ane.AneError, match="not this draft's"):
            ane.Draft(tmp_path / "draft", given)
    with pytest.raises(ane.InvalidDraft):
        ane.Draft(tmp_path, programs)


def test_a_draft_says_what_it_is(pair: SideBySide) -> None:
    draft = pair.running
    assert (draft.width, draft.context, draft.length) == (16, CONTEXT, 0)
    assert draft.info.target_layer_ids == [1, 4, 6]
