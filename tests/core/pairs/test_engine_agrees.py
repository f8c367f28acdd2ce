"""What pairs say of a target before it is loaded is what the engine finds when it is: caches, sizes, refusals."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import MODEL_REMAPPING

from core.engine.draft_weights import load_drafter
from core.engine.gguf import load_gguf
from core.engine.loader import load_target
from core.engine.rollback import Transaction
from core.errors import PairMismatch
from core.formats.target_config import parse_target_config
from core.pairs import demo_pair
from core.pairs.compatibility import judge
from core.pairs.facts import read_facts
from core.pairs.memory import cache_bytes, resident_bytes, state_bytes
from core.pairs.target_rules import RENAMED, architectures
from helpers.folders import write_draft_folder, write_llama_folder
from helpers.tiny import tiny_config

PLAIN = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 96,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e4,
    "tie_word_embeddings": True,
}
MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": True}
HYBRID = {
    **PLAIN,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 2,
}
SLIDING = ["sliding_attention", "full_attention"] * 2
TARGETS = {
    "llama": {"model_type": "llama", **PLAIN},
    "llama, sliding": {"model_type": "llama", **PLAIN, "layer_types": SLIDING, "sliding_window": 256},
    "mistral": {"model_type": "mistral", **PLAIN},
    "qwen2": {"model_type": "qwen2", **PLAIN},
    "qwen3": {"model_type": "qwen3", **PLAIN},
    "qwen3_moe": {
        "model_type": "qwen3_moe",
        **PLAIN,
        **MIXTURE,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
    "qwen3_5": {"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text", **HYBRID}},
    "qwen3_5_moe": {
        "model_type": "qwen3_5_moe",
        "text_config": {
            "model_type": "qwen3_5_moe_text",
            **HYBRID,
            **MIXTURE,
            "shared_expert_intermediate_size": 16,
        },
    },
    "gpt_oss": {
        "model_type": "gpt_oss",
        **PLAIN,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 256,
        "layer_types": SLIDING,
        "rope_scaling": None,
    },
}
POSITIONS = 512


@pytest.fixture(params=TARGETS, scope="module")
def target(request):
    """A config, and mlx-lm's own model of it with caches of 512 positions."""
    raw = TARGETS[request.param]
    model_type = raw["model_type"]
    module = importlib.import_module(f"mlx_lm.models.{MODEL_REMAPPING.get(model_type, model_type)}")
    model = module.Model(module.ModelArgs.from_dict(json.loads(json.dumps(raw))))
    caches = make_prompt_cache(model)
    mx.eval(model(mx.zeros((1, POSITIONS), mx.int32), cache=caches))
    return parse_target_config(raw, request.param), caches, model.layers


def test_layers_that_are_said_to_roll_back_do(target):
    config, caches, layers = target
    assert config.layer_kinds is not None
    assert Transaction(caches, layers).length == 0


def test_the_memory_of_caches_is_what_mlx_allocates(target):
    config, caches, _ = target
    keys_values = [a for cache in caches if hasattr(cache, "keys") for a in (cache.keys, cache.values)]
    states = [array for cache in caches if not hasattr(cache, "keys") for array in cache.cache]
    assert cache_bytes(config, POSITIONS, 4) == sum(array.nbytes for array in keys_values)
    assert state_bytes(config, 4) == sum(array.nbytes for array in states)


def test_architectures_are_those_of_mlx_lm():
    assert RENAMED == MODEL_REMAPPING
    for name in ("llama", "qwen3", "qwen3_5_moe", "gpt_oss", "gemma3_text", *MODEL_REMAPPING):
        assert name in architectures()
    assert not {"base", "cache", "no_such_model"} & architectures()


def test_the_demo_targets_weights_take_what_is_said():
    facts = read_facts(Path(demo_pair().target))
    model, _ = load_gguf(demo_pair().target, dequantize=True)
    loaded = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
    assert resident_bytes(facts.tensors, "cpu") == loaded


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"hidden_size": 40},
        {"vocab_size": 97},
        {"num_target_layers": 3},
        {"target_layer_ids": (0, 1)},
    ],
)
def test_the_loader_refuses_what_the_rules_refuse(tmp_path, changes):
    folder = write_llama_folder(tmp_path / "target")
    loaded, _ = load_target(folder)
    fitting = {"vocab_size": loaded.vocab_size, "num_target_layers": 2, "target_layer_ids": (0, 1)}
    draft = write_draft_folder(tmp_path / "draft", tiny_config(**{**fitting, **changes}))
    compatibility = judge(read_facts(folder), read_facts(draft))
    if compatibility.runs:
        assert load_drafter(draft, loaded, mx.float32).block_size
    else:
        with pytest.raises(PairMismatch) as caught:
            load_drafter(draft, loaded, mx.float32)
        assert caught.value.problem.sentence in compatibility.reasons
