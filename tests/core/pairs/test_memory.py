"""The memory sum: which rows, what they grow with, and what is free."""

from __future__ import annotations

import psutil
import pytest

import assets
from core.formats.draft_config import parse_draft_config, read_draft_config
from core.formats.target_config import parse_target_config
from core.pairs.memory import CONTEXTS, DEFAULT_CONTEXT, MemoryLimits, pair_memory, program_bytes, resident_bytes
from core.units import size
from helpers.published import draft_facts, published, target_facts


def memory_of(name, precision, **options):
    fixture = published(name)
    target = target_facts(fixture, precision)
    draft = parse_draft_config(draft_facts(fixture).config, name)
    config = parse_target_config(target.config, name)
    return pair_memory(config, draft, tensors=target.tensors, stored_bytes=0, **options)


def rows(memory):
    return {row.what: row.bytes for row in memory.rows}


def test_the_default_is_one_of_the_contexts_that_are_shown():
    assert DEFAULT_CONTEXT in CONTEXTS


def test_the_sum_is_the_sum_of_its_rows():
    memory = memory_of("qwen3-4b", "qwen3-4b-8bit", device="gpu")
    assert memory.needed_bytes == sum(rows(memory).values())
    assert rows(memory)["target weights"] == 4_274_056_192
    assert rows(memory)["draft weights"] == 1_074_854_400


def test_full_attention_grows_with_the_context_and_a_running_state_does_not():
    short, long = (rows(memory_of("qwen3.6-27b", "qwen3.6-27b-4bit", context=c, device="gpu")) for c in (4096, 32768))
    assert long["target cache"] == 8 * short["target cache"]
    assert long["target state"] == short["target state"] > 100e6
    assert long["target weights"] == short["target weights"]


def test_sliding_layers_keep_their_window():
    cache = {c: rows(memory_of("gpt-oss-20b", "gpt-oss-20b-mxfp4-q8", context=c, device="gpu")) for c in (4096, 32768)}
    full_layers, bytes_a_position = 12, 2 * 8 * 64 * 2
    grown = cache[32768]["target cache"] - cache[4096]["target cache"]
    assert grown == full_layers * bytes_a_position * (32768 - 4096)


def test_a_processor_takes_float32_where_weights_are_not_packed():
    on_gpu = rows(memory_of("qwen3-4b", "qwen3-4b-bf16", device="gpu"))
    on_cpu = rows(memory_of("qwen3-4b", "qwen3-4b-bf16", device="cpu"))
    for row in ("target weights", "target cache", "draft weights", "draft cache"):
        assert on_cpu[row] == 2 * on_gpu[row]
    packed = rows(memory_of("qwen3-4b", "qwen3-4b-4bit", device="cpu"))["target weights"]
    assert packed < 1.2 * rows(memory_of("qwen3-4b", "qwen3-4b-4bit", device="gpu"))["target weights"]


def test_a_packed_draft_stays_packed_on_a_gpu_and_is_unpacked_for_a_processor():
    packed, plain = (
        {d: rows(memory_of("qwen3-4b", "qwen3-4b-4bit", device=d, draft_bytes=size)) for d in ("gpu", "cpu")}
        for size in (300_000_000, 1_074_854_400)
    )
    assert packed["gpu"]["draft weights"] == 300_000_000
    assert packed["cpu"]["draft weights"] == plain["cpu"]["draft weights"] == 2 * plain["gpu"]["draft weights"]


def test_the_candidate_selector_is_in_no_program():
    draft = draft_facts(published("qwen3.8-27b"))
    config = parse_draft_config(draft.config, "x")
    selector = sum(t.bytes // 2 for name, t in draft.tensors.items() if name.startswith("candidate_selector."))
    again = 3 * 5120 * 25600 + 2 * 5 * 2 * 1024 * 5120  # fc in 16 bits twice, keys and values in both `ingest`s too
    assert program_bytes(config) == draft.weight_bytes // 2 - selector + again


def test_weights_that_are_not_loaded_do_not_count():
    tensors = dict(target_facts(published("qwen3.5-9b"), "qwen3.5-9b-4bit").tensors)
    before = resident_bytes(tensors, "gpu")
    some = next(iter(tensors.values()))
    tensors |= {"vision_tower.blocks.0.attn.qkv.weight": some, "language_model.mtp.fc.weight": some}
    assert resident_bytes(tensors, "gpu") == before


def test_what_the_loaded_pair_holds_counts_as_free():
    without = memory_of("qwen3-4b", "qwen3-4b-8bit")
    held = memory_of("qwen3-4b", "qwen3-4b-8bit", held_bytes=10**9)
    # Other processes take and give memory between the two calls.
    assert held.free_bytes - without.free_bytes == pytest.approx(10**9, abs=8e8)
    assert held.free_bytes <= psutil.virtual_memory().total
    assert memory_of("qwen3-4b", "qwen3-4b-8bit", held_bytes=10**15).free_bytes == held.total_bytes


def test_too_little_memory_is_said_with_both_figures_and_the_difference():
    memory = memory_of("qwen3-4b", "qwen3-4b-8bit", context=1 << 24)
    assert not memory.fits
    missing = memory.needed_bytes - memory.free_bytes
    assert memory.verdict == (
        f"Needs {size(memory.needed_bytes)}, {size(memory.free_bytes)} are free: {size(missing)} too little."
    )


def test_programs_take_what_they_take_on_disk(tmp_path):
    """The demo draft's programs, made for real."""
    import ane

    folder = assets.path("demo-draft")
    kernels = ane.compile_kernels(folder, tmp_path, width=64, context=2048)
    assert program_bytes(read_draft_config(folder)) == pytest.approx(kernels.bytes, rel=0.05)


def test_the_users_limits_are_in_the_sum():
    free = memory_of("qwen3-4b", "qwen3-4b-8bit", context=8192)
    limited = memory_of("qwen3-4b", "qwen3-4b-8bit", context=8192, limits=MemoryLimits(4096, 0))
    assert (limited.context, free.context) == (4096, 8192)
    assert rows(limited)["target cache"] < rows(free)["target cache"]
    assert memory_of("qwen3-4b", "qwen3-4b-8bit", context=2048, limits=MemoryLimits(4096, 0)).context == 2048


def test_what_is_held_of_earlier_conversations_is_at_most_a_quarter_of_what_is_left():
    large = memory_of("qwen3-4b", "qwen3-4b-8bit", held_bytes=1 << 50, limits=MemoryLimits(0, 100))
    small = memory_of("qwen3-4b", "qwen3-4b-8bit", held_bytes=1 << 50, limits=MemoryLimits(0, 1 << 40))
    rest = sum(row.bytes for row in small.rows[:-1])
    assert small.rows[-1].what == "earlier conversations"
    assert small.rows[-1].bytes == small.optional_bytes == max(small.free_bytes - rest, 0) // 4
    assert rows(large)["earlier conversations"] == min(100_000_000, max(large.free_bytes - rest, 0) // 4)
    assert large.fits == (rest <= large.free_bytes)
