"""A draft's config: published forms are read, anything absurd is refused with a sentence."""

from __future__ import annotations

import json

import pytest

import assets
from core.errors import MirrorError, MissingFile, UnreadableModel, UnsupportedModel
from core.formats.draft_config import read_draft_config


@pytest.fixture
def raw():
    return json.loads((assets.path("demo-draft") / "config.json").read_text())


@pytest.fixture
def read(tmp_path):
    def write_and_read(raw):
        text = raw if isinstance(raw, str) else json.dumps(raw)
        (tmp_path / "config.json").write_text(text)
        return read_draft_config(tmp_path)

    return write_and_read


def test_the_demo_draft(read, raw):
    config = read(raw)
    assert config.target_layer_ids == (1, 8, 14, 21, 27)
    assert (config.block_size, config.mask_token_id, config.num_target_layers) == (8, 5, 30)
    assert not any(config.causal(layer) or config.sliding(layer) for layer in range(5))


def test_the_inner_block_size_wins(read, raw):
    raw["block_size"], raw["dflash_config"]["block_size"] = 16, 10
    assert read(raw).block_size == 10
    del raw["dflash_config"]["block_size"]
    assert read(raw).block_size == 16


def test_missing_taps_follow_the_published_rule(read, raw):
    del raw["dflash_config"]["target_layer_ids"]
    raw["num_target_layers"] = 36
    assert read(raw).target_layer_ids == (1, 9, 17, 25, 33)


def test_sliding_layers_are_causal_unless_the_config_says_otherwise(read, raw):
    raw["layer_types"] = ["sliding_attention"] * 4 + ["full_attention"]
    raw["sliding_window"] = 2048
    config = read(raw)
    assert [config.causal(layer) for layer in range(5)] == [True] * 4 + [False]
    assert not any(read({**raw, "is_causal": False}).causal(layer) for layer in range(5))
    assert all(read({**raw, "is_causal": True}).causal(layer) for layer in range(5))


def test_sliding_layers_need_a_window(read, raw):
    raw["layer_types"] = ["sliding_attention"] * 5
    with pytest.raises(UnreadableModel, match="sliding_window"):
        read(raw)


def test_theta_and_yarn_come_from_rope_parameters_too(read, raw):
    del raw["rope_theta"]
    raw["rope_parameters"] = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e7}
    config = read(raw)
    assert config.rope_theta == 1e7
    assert config.rope_scaling == raw["rope_parameters"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_attention_heads", 0),
        ("num_hidden_layers", 10**9),
        ("hidden_size", -576),
        ("hidden_size", "576"),
        ("hidden_size", 576.5),
        ("head_dim", 63),
        ("num_key_value_heads", 4),
        ("rms_norm_eps", 0),
        ("rope_theta", -1),
        ("vocab_size", None),
        ("layer_types", ["full_attention"]),
        ("layer_types", ["odd_attention"] * 5),
        ("dflash_config", []),
        ("dflash_config.mask_token_id", 49152),
        ("dflash_config.target_layer_ids", [1, 8, 14, 21, 30]),
        ("dflash_config.target_layer_ids", [1, 1, 8]),
        ("dflash_config.block_size", 1),
        ("final_logit_softcapping", -30),
    ],
)
def test_absurd_values_are_refused_by_name(read, raw, field, value):
    holder = raw
    *path, last = field.split(".")
    for name in path:
        holder = holder[name]
    holder[last] = value
    with pytest.raises(UnreadableModel) as caught:
        read(raw)
    assert last in caught.value.problem.sentence


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"architectures": ["DFlashDraftModel"]}', "[" * 100_000])
def test_what_is_no_config_is_refused(read, text):
    with pytest.raises(MirrorError):
        read(text)


def test_other_architectures_are_refused_by_name(read, raw):
    raw["architectures"] = ["DFlash3DraftModel"]
    with pytest.raises(UnsupportedModel, match="DFlash3DraftModel"):
        read(raw)


SECOND = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 256, "selector_top_k": 16}


def test_the_second_generation_brings_its_sizes(read, raw):
    raw["architectures"] = ["DFlash2DraftModel"]
    raw["dflash_config"] |= SECOND
    config = read(raw)
    assert {name: getattr(config, name) for name in SECOND} == SECOND
    raw["architectures"] = ["DFlashDraftModel"]
    assert not any(getattr(read(raw), name) for name in SECOND), "they mean nothing in the first generation"


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        *((name, None, f"{name} is missing, which DFlash2DraftModel needs") for name in SECOND),
        *((name, 0, f"{name} is 0, wanted is a whole number of at least 1") for name in SECOND),
        ("conv_group_size", 7, "conv_group_size is 7, which does not divide hidden_size 576"),
        ("conv_kernel_size", 9, "conv_kernel_size is 9, more than the block's 8 rows"),
        ("selector_rank", "256", "selector_rank is '256', wanted is a whole number"),
        ("selector_top_k", 10**6, "selector_top_k is 1000000"),
    ],
)
def test_impossible_sizes_of_the_second_generation_are_refused(read, raw, field, value, reason):
    raw["architectures"] = ["DFlash2DraftModel"]
    raw["dflash_config"] |= {**SECOND, field: value}
    with pytest.raises(UnreadableModel, match=reason):
        read(raw)


def test_a_selector_chooses_among_tokens_that_there_are(read, raw):
    raw["architectures"], raw["vocab_size"] = ["DFlash2DraftModel"], 10
    raw["dflash_config"] |= {**SECOND, "mask_token_id": 5}
    with pytest.raises(UnreadableModel, match="selector_top_k is 16, but vocab_size is 10"):
        read(raw)


def test_a_folder_without_config_is_refused(tmp_path):
    with pytest.raises(MissingFile):
        read_draft_config(tmp_path)
