"""Pairs that cannot work: each rule violated once, and absurd configs. Each gives its reason, nothing is loaded."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import msgspec
import pytest

import assets
from core.formats.safetensors_header import TensorFacts
from core.formats.tokenizer_facts import TokenizerFacts
from core.pairs.catalog import read_catalog
from core.pairs.compatibility import fitting_drafts, judge
from core.pairs.facts import ModelFacts
from core.pairs.inspection import inspect
from helpers.published import draft_facts, published, target_facts

CATALOG = read_catalog(assets.path("pairs.toml"))
FIXTURE = published("qwen3-4b")
TARGET = target_facts(FIXTURE, "qwen3-4b-8bit", "mlx-community/Qwen3-4B-8bit")
DRAFT = draft_facts(FIXTURE, "z-lab/Qwen3-4B-DFlash-b16")
KNOWN = CATALOG.find("qwen3-4b-8bit")[0]
NESTED: list = []
for _ in range(3000):
    NESTED = [NESTED]


def changed(facts: ModelFacts, path: str, value) -> ModelFacts:
    """With one entry of the config replaced, or taken out (`...`)."""
    config = json.loads(json.dumps(facts.config))
    holder = config
    *names, last = path.split(".")
    for name in names:
        holder = holder.setdefault(name, {})
    holder.pop(last, None)
    if value is not ...:
        holder[last] = value
    return replace(facts, config=config)


def with_tensor(facts: ModelFacts, name: str, tensor: TensorFacts | None) -> ModelFacts:
    tensors = {key: value for key, value in facts.tensors.items() if key != name}
    return replace(facts, tensors=tensors if tensor is None else {**tensors, name: tensor})


def test_the_pair_that_all_others_are_made_from_is_right():
    compatibility = judge(TARGET, DRAFT)
    assert compatibility.runs
    assert {v.outcome for v in compatibility.verdicts} == {"ok", "unknown"}


BF16 = TensorFacts("BF16", (7, 2560), 35840)
WRONG_DRAFTS = {
    "hidden size": (published("qwen3-8b"), None, "hidden size is 4096, this target's 2560"),
    "vocabulary": ("vocab_size", 151937, "vocabulary size is 151937, this target's 151936"),
    "layer count": ("num_target_layers", 37, "number of target layers is 37, this target's 36"),
    "tap beyond its own count": (
        "dflash_config.target_layer_ids",
        [1, 36],
        "names layer 36, but num_target_layers is 36",
    ),
    "tap twice": ("dflash_config.target_layer_ids", [1, 1], "target_layer_ids is [1, 1], wanted are different layers"),
    "no taps": ("dflash_config.target_layer_ids", [], "target_layer_ids is [], wanted are different layers"),
    "tap below zero": ("dflash_config.target_layer_ids", [-1], "target_layer_ids is [-1]"),
    "mask token": ("dflash_config.mask_token_id", 151936, "mask_token_id is 151936, but vocab_size is 151936"),
    "no mask token": ("dflash_config.mask_token_id", ..., "dflash_config.mask_token_id is missing"),
    "block of one": ("dflash_config.block_size", 1, "block_size is 1, wanted is a whole number of at least 2"),
    "huge block": ("block_size", 4096, "block_size is 4096, wanted is a whole number of at most 64"),
    "another architecture": ("architectures", ["LlamaForCausalLM"], "is not a DFlash draft"),
    "no architecture": ("architectures", ..., "is not a DFlash draft that Mirror SD can run (architectures: nothing)"),
    "second generation by name alone": (
        "architectures",
        ["DFlash2DraftModel"],
        "dflash_config.conv_kernel_size is missing, which DFlash2DraftModel needs",
    ),
    "biases that are not there": (
        "attention_bias",
        True,
        "self_attn.q_proj.bias is missing: 58 tensors are there, 78 are wanted",
    ),
    "activation": ("hidden_act", "gelu", "activation is 'gelu', only 'silu'"),
    "negative size": ("hidden_size", -2560, "hidden_size is -2560, wanted is a whole number of at least 1"),
    "zero layers": ("num_hidden_layers", 0, "num_hidden_layers is 0, wanted is a whole number of at least 1"),
    "text for a number": ("intermediate_size", "9728", "intermediate_size is '9728', wanted is a whole number"),
    "a fraction": ("head_dim", 127.5, "head_dim is 127.5, wanted is a whole number"),
    "odd heads": ("head_dim", 127, "head_dim is 127, wanted is a whole number that 2 divides"),
    "missing field": ("num_attention_heads", ..., "num_attention_heads is missing"),
    "heads": ("num_key_value_heads", 7, "num_key_value_heads is 7, which does not divide num_attention_heads 32"),
    "not a number": ("rms_norm_eps", math.nan, "rms_norm_eps is nan, wanted is a number above 0"),
    "infinity": ("rope_theta", math.inf, "rope_theta is inf, wanted is a number"),
    "huge number": ("vocab_size", 10**30, "vocab_size is 1000000000000000000000000000000, wanted is a whole number"),
    "layer types": ("layer_types", ["full_attention"], "layer_types has 1 entries, but num_hidden_layers is 5"),
    "odd layer type": ("layer_types", ["odd"] * 5, "layer_types is ['odd'"),
    "no window": ("layer_types", ["sliding_attention"] * 5, "sliding_window is missing"),
    "unknown RoPE": ("rope_scaling", {"rope_type": "spiral"}, "rope_type is 'spiral', known are default, linear"),
    "RoPE factor": ("rope_scaling", {"rope_type": "yarn", "factor": "x"}, "the RoPE factor is 'x', wanted is a number"),
    "a list for an object": ("dflash_config", [[[]]], "dflash_config is [[[]]], wanted is an object"),
    "null for an object": ("dflash_config", None, "dflash_config is nothing, wanted is an object"),
    "soft cap": ("final_logit_softcapping", -30.0, "final_logit_softcapping is -30.0"),
}


@pytest.mark.parametrize("case", WRONG_DRAFTS)
def test_a_wrong_draft_gives_its_reason_with_what_stands_there(case):
    where, value, reason = WRONG_DRAFTS[case]
    draft = draft_facts(where) if isinstance(where, dict) else changed(DRAFT, where, value)
    assert_refused(TARGET, draft, reason)


WRONG_TARGETS = {
    "architecture": (
        "model_type",
        "chatterbox_9000",
        "is chatterbox_9000, which the installed mlx-lm has no class",
    ),
    "path for an architecture": ("model_type", "../../etc", "architecture is ../../etc, which"),
    "no architecture": ("model_type", ..., "model_type is nothing"),
    "list for an architecture": ("model_type", ["qwen3"], "model_type is ['qwen3']"),
    "custom code": ("model_file", "evil.py", "bring its own program along ('evil.py'), which is never run"),
    "layers announced": ("num_hidden_layers", 35, "announces 35 layers, its weights hold 36"),
    "negative layers": ("num_hidden_layers", -36, "num_hidden_layers is -36, wanted is a whole number of at least 1"),
    "hidden size": ("hidden_size", 2592, "hidden size is 2560, this target's 2592"),
    "vocabulary": ("vocab_size", 151937, "announces 151937 tokens, its embedding has 151936 rows"),
    "text": ("vocab_size", "many", "vocab_size is 'many', wanted is a whole number"),
    "missing": ("num_attention_heads", ..., "num_attention_heads is missing"),
    "heads": ("num_key_value_heads", 5, "num_key_value_heads is 5, which does not divide num_attention_heads 32"),
    "no bits": ("quantization", {"group_size": 64}, "quantization.bits is nothing"),
    "list of bits": ("quantization", [8], "quantization is [8], wanted is an object"),
    "text for a group": ("quantization", {"bits": 8, "group_size": "all"}, "quantization.group_size is 'all'"),
    "layer types": ("layer_types", ["full_attention"], "layer_types has 1 entries, but num_hidden_layers is 36"),
}


@pytest.mark.parametrize("case", WRONG_TARGETS)
def test_a_wrong_target_gives_its_reason_with_what_stands_there(case):
    where, value, reason = WRONG_TARGETS[case]
    assert_refused(changed(TARGET, where, value), DRAFT, reason)


WRONG_TENSORS = {
    "missing": (
        "layers.2.mlp.up_proj.weight",
        None,
        "mlp.up_proj.weight is missing: 57 tensors are there, 58",
    ),
    "shape": ("fc.weight", BF16, "fc.weight has the shape [7, 2560], wanted is [2560, 12800]"),
    "extra": ("lm_head.weight", BF16, "lm_head.weight is none that a DFlash draft has"),
    "another type": ("fc.weight", TensorFacts("U8", (1,), 1), "stored as BF16, U8; BF16, F16, F32, U32 can be read"),
    "packed without scales": (
        "fc.weight",
        TensorFacts("U32", (2560, 1600), 16384000),
        "fc.weight is packed, but fc.scales is missing: only MLX's affine quantisation can be read",
    ),
}


@pytest.mark.parametrize("case", WRONG_TENSORS)
def test_weights_that_are_not_what_the_config_announces_are_seen_in_the_header(case):
    name, tensor, reason = WRONG_TENSORS[case]
    assert_refused(TARGET, with_tensor(DRAFT, name, tensor), reason)


def test_models_without_weights_are_refused():
    assert_refused(replace(TARGET, tensors={}), DRAFT, "has no weights")
    assert_refused(TARGET, replace(DRAFT, tensors={}), "has no weights")


def test_a_draft_that_reads_beyond_this_target_is_refused_with_both_numbers():
    target = replace(TARGET, tensors=None)
    for layers in (30, 33):
        reason = f"reads layer 33 of its target, but this target has {layers} layers"
        assert_refused(changed(target, "num_hidden_layers", layers), DRAFT, reason)
    reasons = judge(changed(target, "num_hidden_layers", 34), DRAFT).reasons
    assert not any("reads layer 33" in reason for reason in reasons)


def test_a_mask_token_beyond_this_target_is_refused_with_both_numbers():
    target = changed(replace(TARGET, tensors=None), "vocab_size", 150000)
    assert_refused(target, DRAFT, "mask token is 151669, but this target has 150000 tokens")


def test_every_reason_is_given_not_only_the_first():
    target = changed(replace(TARGET, tensors=None), "hidden_size", 4096)
    draft = changed(changed(DRAFT, "vocab_size", 160000), "hidden_act", "gelu")
    assert len(judge(target, draft).reasons) == 3


def test_different_tokenizers_are_a_reason():
    one, other = TokenizerFacts(151669, "aa"), TokenizerFacts(151670, "bb")
    target, draft = replace(TARGET, tokenizer=one), replace(DRAFT, tokenizer=other)
    assert_refused(target, draft, "draft's tokenizer has 151670 tokens, the target's 151669, and they differ")
    assert judge(target, replace(DRAFT, tokenizer=one)).runs


WARNINGS = {
    "gated target": ({"gated": True}, {}, "is gated: its files come after you agreed"),
    "gated draft": ({}, {"gated": True}, "z-lab/Qwen3-4B-DFlash-b16 is gated"),
    "ends": (
        {"tokenizer": TokenizerFacts(ends=(151645,))},
        {"tokenizer": TokenizerFacts(ends=(2,))},
        "The draft's answers end with token 2, the target's with 151645",
    ),
    "thinking": ({"tokenizer": TokenizerFacts(can_think=True)}, {}, "trained on answers without thinking"),
    "name": ({"name": "someone/Qwen3-8B-tuned"}, {}, "was trained for Qwen3-4B; whether someone/Qwen3-8B-tuned is one"),
}


@pytest.mark.parametrize("case", WARNINGS)
def test_a_drawback_is_a_warning_and_the_pair_still_runs(case):
    of_target, of_draft, warning = WARNINGS[case]
    compatibility = judge(replace(TARGET, **of_target), replace(DRAFT, **of_draft), KNOWN)
    assert compatibility.runs
    assert any(warning in sentence for sentence in compatibility.warnings), compatibility.warnings


@pytest.mark.parametrize(
    "quantization",
    [{"bits": 7, "group_size": 64}, {"bits": 4, "group_size": 48}, {"bits": 4, "group_size": 32, "mode": "mxfp5"}],
)
def test_an_unknown_quantisation_is_a_warning(quantization):
    compatibility = judge(changed(TARGET, "quantization", quantization), DRAFT)
    assert compatibility.runs
    assert any("is not known: whether the target loads shows" in warning for warning in compatibility.warnings)


def test_a_target_that_cannot_think_gives_no_warning_about_thinking():
    target = replace(TARGET, tokenizer=TokenizerFacts(can_think=False))
    assert judge(target, DRAFT, KNOWN).warnings == ()


ABSURD = [None, True, -1, 0, 10**40, 10**5000, 1e308, math.nan, "", "x" * 10000, [], NESTED, {}, {"a": NESTED}]


HYBRID = target_facts(published("qwen3.6-27b"), "qwen3.6-27b-4bit")
FIELDS = (
    "text_config",
    "layer_types",
    "rope_scaling",
    "rope_parameters",
    "quantization_config",
    "model_file",
    "is_causal",
)


@pytest.mark.parametrize("facts", [TARGET, HYBRID, DRAFT], ids=["target", "hybrid target", "draft"])
def test_whatever_stands_in_a_config_is_judged_without_a_traceback(facts):
    """Every field of a config, also within its objects, set to every absurd value."""
    config = dict(facts.config)
    inner = [(key, name) for key, value in config.items() if isinstance(value, dict) for name in value]
    for outer, name in [*((key, "") for key in (*config, *FIELDS)), *inner]:
        for value in ABSURD:
            wrong = replace(facts, config={**config, outer: {**config[outer], name: value} if name else value})
            pair = (TARGET, wrong) if facts is DRAFT else (wrong, DRAFT)
            for verdict in judge(*pair, KNOWN).verdicts:
                assert len(verdict.sentence) < 400
                assert verdict.sentence.endswith(".")


@pytest.mark.parametrize("config", [{}, {"architectures": NESTED}, {"model_type": NESTED}, {"text_config": NESTED}])
def test_configs_of_nothing_are_judged_too(config):
    empty = ModelFacts("nothing", config)
    assert not judge(empty, empty).runs
    assert not judge(empty, None).runs
    assert fitting_drafts(empty, CATALOG) == []


def test_drafts_that_fit_a_target_are_named_the_one_made_for_it_first():
    target = replace(HYBRID, name="mlx-community/Qwen3.6-27B-4bit")
    names = [pair.id for pair, _ in fitting_drafts(target, CATALOG)]
    assert names == ["qwen3.6-27b", "qwen3.5-27b", "qwen3.8-27b"]


def test_no_draft_is_named_for_a_target_that_has_none():
    assert fitting_drafts(changed(replace(TARGET, tensors=None), "hidden_size", 2592), CATALOG) == []


def test_a_report_is_json_whatever_the_config_says(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": -1, "architectures": [[]]}')
    report = inspect(str(tmp_path), str(tmp_path), CATALOG, [])
    assert report.memory is None
    assert not report.compatibility.runs
    assert msgspec.json.encode(report)


def assert_refused(target: ModelFacts, draft: ModelFacts, reason: str) -> None:
    compatibility = judge(target, draft)
    assert not compatibility.runs
    assert any(reason in sentence for sentence in compatibility.reasons), compatibility.reasons
