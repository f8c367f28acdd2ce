"""A target's config: its shape, its layers, its quantisation."""

from __future__ import annotations

import mlx.core as mx
import pytest

from core.formats.quantization import MODES, read_quantization
from core.formats.target_config import parse_target_config

BASE = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 100,
}


def test_what_is_left_out_follows_from_the_rest():
    config = parse_target_config(BASE, "x")
    assert (config.num_key_value_heads, config.head_dim) == (4, 16)
    assert config.layer_kinds == ("full",) * 4
    assert config.quantization is None


def test_multimodal_models_keep_their_text_model_within():
    config = parse_target_config({"model_type": "qwen3_5", "text_config": {**BASE, "hidden_size": 128}}, "x")
    assert config.hidden_size == 128
    assert config.layer_kinds == ("recurrent", "recurrent", "recurrent", "full")


def test_models_of_other_kinds_have_unknown_layers():
    assert parse_target_config({**BASE, "model_type": "mamba2"}, "x").layer_kinds is None


def test_gpt_oss_alternates():
    assert parse_target_config({**BASE, "model_type": "gpt_oss"}, "x").layer_kinds == ("sliding", "full") * 2


@pytest.mark.parametrize("mode", MODES)
def test_known_quantisations_are_those_that_mlx_has(mode):
    widths, groups = MODES[mode]
    for bits in range(1, 9):
        for group in (16, 32, 64, 128, 256):
            try:
                mx.eval(mx.quantize(mx.ones((32, 512)), group_size=group, bits=bits, mode=mode))
                there = True
            except (ValueError, RuntimeError):
                there = False
            assert there == (bits in widths and group in groups), (mode, bits, group)


@pytest.mark.parametrize(
    ("config", "words", "known"),
    [
        ({"quantization": {"bits": 4, "group_size": 64}}, "4 bits (affine, groups of 64)", True),
        ({"quantization": {"bits": 4, "group_size": 64, "lm_head": {"bits": 8, "group_size": 64}}}, "4 bits", True),
        ({"quantization": {"bits": 4, "group_size": 32, "mode": "mxfp4"}}, "4 bits (mxfp4, groups of 32)", True),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "gptq", True),
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8", False),
        ({"text_config": {"quantization_config": {"quant_method": "awq"}}}, "awq", True),
    ],
)
def test_quantisation_in_words(config, words, known):
    quantization = read_quantization(config, "x")
    assert quantization.words.startswith(words)
    assert quantization.known == known
