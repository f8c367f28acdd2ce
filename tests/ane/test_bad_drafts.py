"""Draft folders that cannot be built: one sentence that names the file and the problem, and nothing written."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ane
from core.errors import UnreadableModel
from core.formats.draft_config import read_draft_config
from helpers.random_drafts import SECOND, packed, random_weights, small_draft, write_draft
from helpers.tiny import tiny_config

QUERY = "layers.1.self_attn.q_proj.weight"
FUZZ = settings(max_examples=150, deadline=None)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_draft(tmp_path_factory.mktemp("sound") / "draft")


def refusal(draft: Path) -> str:
    """The sentence with which the draft is refused, checked to be one and to leave nothing."""
    out = draft.parent / "out"
    with pytest.raises(ane.InvalidDraft) as raised:
        ane.build_packages(draft, out, width=16, context=512)
    assert not out.exists()
    assert os.listdir(draft.parent) == [draft.name]
    sentence = str(raised.value)
    assert sentence.startswith(f"The draft cannot be built from {draft}")
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def with_config(folder: Path, changes: dict[str, object], **base: object) -> Path:
    draft = small_draft(folder / "draft", **base)
    config = json.loads((draft / "config.json").read_text())
    for name, value in changes.items():
        holder = config["dflash_config"] if name in config["dflash_config"] else config
        holder[name] = value
    (draft / "config.json").write_text(json.dumps(config))
    return draft


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"num_attention_heads": 0}, "num_attention_heads is 0, but must be between 1 and 1024"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ({"num_key_value_heads": 3}, "4 heads cannot share 3 key-value heads"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, but must be between 1 and 64"),
        ({"num_hidden_layers": 10**30}, "number|invalid"),
        ({"num_hidden_layers": -1}, "invalid value"),
        ({"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}, r"has no tensor layers\.2\."),
        ({"hidden_size": 33}, "has the shape"),
        ({"hidden_size": 10**6}, "hidden_size is 1000000"),
        ({"hidden_size": "32"}, "invalid type"),
        ({"hidden_size": None}, "invalid type"),
        ({"head_dim": 7}, "head_dim is 7, an odd number"),
        ({"num_attention_heads": 1024, "head_dim": 1024}, "1024 heads of 1024 are more than 65536 channels"),
        ({"intermediate_size": 0}, "intermediate_size is 0"),
        ({"rms_norm_eps": -1e-6}, "rms_norm_eps is"),
        ({"rms_norm_eps": 1e-60}, "rms_norm_eps is"),
        ({"layer_types": ["full_attention"]}, "layer_types names 1 layers of 2"),
        ({"layer_types": ["full_attention", "cosine_attention"]}, "unknown variant"),
        ({"layer_types": ["sliding_attention"] * 2}, "no sliding_window"),
        ({"target_layer_ids": []}, "its taps"),
        ({"target_layer_ids": [1, 1]}, "its taps"),
        ({"target_layer_ids": [0, 4]}, "its taps"),
        ({"architectures": ["DFlash3DraftModel"]}, "not DFlashDraftModel or DFlash2DraftModel"),
        ({"architectures": ["DFlash2DraftModel"]}, "it has no conv_group_size"),
        ({"architectures": ["DFlashDraftModel", "DFlash2DraftModel"]}, "its architectures are"),
        ({"hidden_act": "gelu"}, "another activation"),
        ({"attention_bias": True}, r"it has no tensor layers\.0\.self_attn\.k_proj\.bias"),
        ({"block_size": 65}, "block_size is 65"),
    ],
)
def test_an_impossible_config_is_refused(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    draft = with_config(tmp_path, changes)
    with pytest.raises(ane.InvalidDraft, match=problem):
        ane.inspect_draft(draft)
    refusal(draft)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"conv_group_size": 7}, "its conv_group_size 7 does not divide its hidden_size 32"),
        ({"conv_group_size": 0}, "conv_group_size is 0, but must be between 1"),
        ({"conv_kernel_size": 0}, "conv_kernel_size is 0, but must be between 1"),
        ({"conv_kernel_size": 9}, "conv_kernel_size is more than its block has rows"),
        ({"conv_kernel_size": 3}, "base_kernel has the shape"),
        ({"conv_kernel_size": None}, "it has no conv_kernel_size"),
        ({"selector_rank": 13}, "hidden_projection.weight has the shape"),
        ({"selector_rank": None}, "it has no selector_rank"),
        ({"vocab_size": None}, "it has no vocab_size"),
        ({"vocab_size": 97}, "codebook has the shape"),
        ({"architectures": ["DFlashDraftModel"]}, "is no tensor of a DFlash draft with this config"),
        ({"attention_bias": True}, "it has no tensor layers"),
    ],
)
def test_an_impossible_config_of_the_second_generation_is_refused(
    tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    assert re.search(problem, refusal(with_config(tmp_path, changes, **SECOND)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda w: w.pop("fc.biases"), "fc.weight is packed, but has no scales and biases as MLX's are"),
        (lambda w: w.update({"fc.scales": w["fc.scales"][:, :1]}), "fc.weight is packed in the shapes"),
        (lambda w: w.update({"fc.weight": w["fc.weight"][:, :-1]}), "fc.weight is packed in the shapes"),
        (lambda w: w.update({"fc.scales": w["fc.weight"]}), "fc.weight is packed in the shapes"),
        (lambda w: w.update({"norm.weight": mx.zeros(32, mx.uint32)}), "norm.weight is stored as integers"),
        (lambda w: w.update({"fc.weight": mx.zeros((32, 64))}), "fc.biases is no tensor of a DFlash draft"),
    ],
)
def test_a_draft_that_is_packed_in_another_way_is_refused(tmp_path: Path, change: Any, problem: str) -> None:
    config = tiny_config()
    weights = packed(random_weights(config), 4)
    change(weights)
    assert problem in refusal(write_draft(tmp_path / "draft", config, weights))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "\x00\xff", '{"architectures": ["DFlashDraftModel"]}', "[" * 5000]
)
def test_a_config_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    draft = small_draft(tmp_path / "draft")
    (draft / "config.json").write_bytes(text.encode("latin-1"))
    assert "config.json: " in refusal(draft)


def test_missing_files_are_named(tmp_path: Path) -> None:
    draft = small_draft(tmp_path / "draft")
    (draft / "model.safetensors").rename(draft / "model.bin")
    assert "it has no safetensors file" in refusal(draft)
    (draft / "config.json").unlink()
    assert "config.json: No such file" in refusal(draft)
    shutil.rmtree(draft)
    with pytest.raises(ane.InvalidDraft, match="No such file"):
        ane.inspect_draft(draft)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    config = tiny_config()
    draft = write_draft(tmp_path / "draft", config, random_weights(config), shards=3)
    (draft / "model-00002-of-00003.safetensors").unlink()
    assert 'it names the file "model-00002-of-00003.safetensors", which is missing' in refusal(draft)


def _drop(weights: dict[str, mx.array]) -> None:
    del weights[QUERY]


def _add(weights: dict[str, mx.array]) -> None:
    weights["layers.1.self_attn.q_proj.bias"] = mx.zeros(32)


def _reshape(weights: dict[str, mx.array]) -> None:
    weights[QUERY] = weights[QUERY].reshape(16, 64)


def _set(value: float) -> Callable[[dict[str, mx.array]], None]:
    def change(weights: dict[str, mx.array]) -> None:
        weights[QUERY] = weights[QUERY].astype(mx.float32)
        weights[QUERY][3, 5] = value

    return change


def _integers(weights: dict[str, mx.array]) -> None:
    weights[QUERY] = weights[QUERY].astype(mx.int32)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_drop, f"it has no tensor {QUERY}"),
        (_add, "q_proj.bias is no tensor of a DFlash draft with this config"),
        (_reshape, f"{QUERY} has the shape [16, 64], but its config needs [32, 32]"),
        (_set(float("nan")), f"{QUERY} holds the value NaN"),
        (_set(float("-inf")), f"{QUERY} holds the value -inf"),
        (_set(1e30), f"{QUERY}: the weight 1000000000000000000000000000000 does not fit half precision"),
        (_integers, f"{QUERY}: unknown variant `I32`"),
    ],
)
def test_wrong_tensors_are_named(tmp_path: Path, change: Callable[[dict[str, mx.array]], None], problem: str) -> None:
    config = tiny_config()
    weights = random_weights(config)
    change(weights)
    assert problem in refusal(write_draft(tmp_path / "draft", config, weights))


@pytest.mark.parametrize("kept", [0, 7, 8, 100, 4000, -1])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, kept: int) -> None:
    draft = small_draft(tmp_path / "draft")
    file = draft / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    assert "model.safetensors" in refusal(draft)


def test_the_same_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    draft = small_draft(tmp_path / "draft")
    shutil.copy(draft / "model.safetensors", draft / "other.safetensors")
    assert "is in another file, too" in refusal(draft)


ODD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 2, -1, 10**9, 2**31, 2**63, 2**64, 2**70, 1e308, 0.5, "", "sliding_attention"]),
    st.integers(0, 70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.one_of(st.integers(-1, 5), st.sampled_from(["full_attention", "sliding_attention"])), max_size=4),
    st.dictionaries(st.sampled_from(["target_layer_ids", "block_size", "mask_token_id"]), st.integers(-1, 70)),
)
FIELDS = [*json.loads(json.dumps(tiny_config().__struct_fields__)), "architectures", "dflash_config", "hidden_act"]


@FUZZ
@given(st.dictionaries(st.sampled_from(FIELDS), ODD_VALUES, min_size=1, max_size=3))
def test_any_config_is_read_as_the_engine_reads_it_or_refused(
    tmp_path_factory: pytest.TempPathFactory, sound: Path, changes: dict[str, Any]
) -> None:
    draft = tmp_path_factory.mktemp("fuzz") / "draft"
    shutil.copytree(sound, draft)
    config = json.loads((draft / "config.json").read_text())
    (draft / "config.json").write_text(json.dumps({**config, **changes}))
    try:
        info = ane.inspect_draft(draft)
    except ane.InvalidDraft:
        refusal(draft)
        return
    try:
        held = read_draft_config(draft)
    except UnreadableModel:
        return  # for a field that no program depends on
    assert (info.block_size, tuple(info.target_layer_ids)) == (held.block_size, held.target_layer_ids)
    assert [held.sliding(layer) for layer in range(info.num_hidden_layers)] == info.sliding
    assert (info.sliding_window, info.is_causal) == (held.sliding_window, held.is_causal)


HEADER_VALUES = st.one_of(
    ODD_VALUES,
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["BF16", "F16", "F32", "F64", "I8", "", 3]),
            "shape": st.lists(st.sampled_from([0, 1, 32, 64, 2**32, 2**63, -1, 1.5]), max_size=4),
            "data_offsets": st.lists(st.sampled_from([0, 1, 64, 2048, 2**40, 2**63, 2**64, -1]), max_size=3),
        }
    ),
)


@FUZZ
@given(st.data())
def test_any_header_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, sound: Path, data: st.DataObject
) -> None:
    draft = tmp_path_factory.mktemp("fuzz") / "draft"
    shutil.copytree(sound, draft)
    file = draft / "model.safetensors"
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    if data.draw(st.booleans(), label="keep the JSON sound"):
        header = json.loads(content[8 : 8 + length])
        names = st.sampled_from([*header, "__metadata__", "layers.9.mlp.up_proj.weight"])
        header.update(data.draw(st.dictionaries(names, HEADER_VALUES, max_size=2)))
        text = json.dumps(header).encode()
        content = len(text).to_bytes(8, "little") + text + content[8 + length :]
    else:
        changed = bytearray(content)
        for place in data.draw(st.lists(st.integers(0, 8 + length - 1), min_size=1, max_size=4)):
            changed[place] = data.draw(st.integers(0, 255))
        content = bytes(changed[: data.draw(st.sampled_from([len(changed), length, length + 20]))])
    file.write_bytes(content)
    try:
        ane.build_packages(draft, draft.parent / "out", width=16, context=512)
    except ane.InvalidDraft:
        refusal(draft)
