"""A tiny random target of every family whose caches or embeddings differ, built from mlx-lm's own model classes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import mlx.core as mx
from mlx import nn

from core.engine.target import Target
from helpers.tiny import LAYERS, VOCABULARY, randomised

WINDOW = 8
"""Of sliding layers: it wraps within a short answer."""
_COMMON: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "rope_theta": 1e4,
    "max_position_embeddings": 512,
    "sliding_window": WINDOW,
    "tie_word_embeddings": False,
}
_DELTA_NET: dict[str, Any] = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 2,
    "partial_rotary_factor": 0.5,
    "rope_parameters": {"type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
}
_EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "norm_topk_prob": True,
    "mlp_only_layers": [],
}
_MAMBA: dict[str, Any] = {
    "state_size": 8,
    "conv_kernel": 4,
    "use_bias": False,
    "use_conv_bias": True,
    "time_step_rank": 4,
    "tie_word_embeddings": True,
}
_GRANITE: dict[str, Any] = {
    "logits_scaling": 8.0,
    "attention_multiplier": 0.3,
    "embedding_multiplier": 6.0,
    "residual_multiplier": 0.5,
    "attention_bias": False,
    "mlp_bias": False,
}
_GEMMA4: dict[str, Any] = {
    "global_head_dim": 16,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": VOCABULARY,
    "num_kv_shared_layers": 1,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "tie_word_embeddings": True,
}
_FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama, sliding": {"layer_types": ["sliding_attention", "full_attention"] * 2},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {},
    "qwen3_moe": _EXPERTS,
    "qwen3_next": {**_DELTA_NET, **_EXPERTS},
    "qwen3_5": {"text_config": {**_COMMON, **_DELTA_NET}},
    "qwen3_5_moe": {"text_config": {**_COMMON, **_DELTA_NET, **_EXPERTS}},
    "gpt_oss": {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "gemma": {},
    "gemma2": {"query_pre_attn_scalar": 8},
    "gemma3_text": {"sliding_window_pattern": 2, "query_pre_attn_scalar": 8},
    "gemma3": {
        "text_config": {
            **_COMMON,
            "model_type": "gemma3_text",
            "sliding_window_pattern": 2,
            "query_pre_attn_scalar": 8,
        }
    },
    "gemma4_text": _GEMMA4,
    "gemma4": {"text_config": {**_COMMON, **_GEMMA4}},
    "granite": _GRANITE,
    "granitemoehybrid": {
        **_GRANITE,
        "layer_types": ["mamba", "attention"] * 2,
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
        "mamba_proj_bias": False,
        "mamba_d_state": 8,
        "mamba_d_conv": 4,
        "mamba_n_groups": 1,
        "mamba_conv_bias": True,
    },
    "lfm2": {
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 32,
        "block_multiple_of": 8,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "block_ff_dim": 64,
        "full_attn_idxs": [1, 3],
    },
    "mamba": {**_MAMBA, "intermediate_size": 64},
    "mamba2": {
        **_MAMBA,
        "num_heads": 4,
        "head_dim": 16,
        "ssm_state_size": 8,
        "layer_norm_epsilon": 1e-5,
        "n_groups": 1,
        "time_step_limit": (0.001, 100.0),
    },
    "falcon_h1": {
        "mamba_d_ssm": 64,
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
        "mamba_d_state": 8,
        "tie_word_embeddings": True,
    },
    "nemotron_h": {
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "mamba_proj_bias": False,
        "ssm_state_size": 8,
        "conv_kernel": 4,
        "n_groups": 1,
        "mlp_bias": False,
        "attention_bias": False,
        "layer_norm_epsilon": 1e-5,
        "use_bias": False,
        "use_conv_bias": True,
        "hybrid_override_pattern": ["M", "*", "-", "M"],
        "time_step_limit": (0.001, 100.0),
    },
    "jamba": {
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "mamba_d_conv": 4,
        "mamba_d_state": 8,
        "mamba_expand": 2,
        "num_experts": 2,
        "num_experts_per_tok": 1,
        "tie_word_embeddings": True,
    },
    "kimi_linear": {
        "linear_attn_config": {
            "kda_layers": [1, 3],
            "full_attn_layers": [2, 4],
            "num_heads": 4,
            "head_dim": 8,
            "short_conv_kernel_size": 4,
        },
        "model_max_length": 512,
        "num_experts": 0,
        "moe_intermediate_size": 32,
        "kv_lora_rank": 8,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8,
        "v_head_dim": 8,
    },
    "recurrent_gemma": {
        "attention_bias": False,
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "attention_window_size": WINDOW,
        "block_types": ["recurrent", "attention"],
        "num_key_value_heads": 1,
    },
    "cohere2": {"layer_norm_eps": 1e-5, "sliding_window_pattern": 2, "logit_scale": 0.25, "attention_bias": False},
    "rwkv7": {
        "norm_eps": 1e-5,
        "a_low_rank_dim": 4,
        "v_low_rank_dim": 4,
        "gate_low_rank_dim": 4,
        "decay_low_rank_dim": 4,
    },
    "llama4": {
        "text_config": {
            **_COMMON,
            "attention_bias": False,
            "attention_chunk_size": WINDOW,
            "interleave_moe_layer_step": 2,
            "intermediate_size_mlp": 64,
            "model_type": "llama4_text",
            "num_experts_per_tok": 1,
            "num_local_experts": 2,
            "rope_scaling": None,
            "use_qk_norm": True,
        }
    },
}
FAMILIES = tuple(_FAMILIES)
WINDOWED = ("llama, sliding", "gpt_oss", "gemma3_text", "gemma4_text", "recurrent_gemma", "llama4")
RECURRENT = (
    "qwen3_next",
    "qwen3_5",
    "qwen3_5_moe",
    "granitemoehybrid",
    "lfm2",
    "mamba",
    "mamba2",
    "falcon_h1",
    "nemotron_h",
    "jamba",
    "kimi_linear",
    "recurrent_gemma",
    "rwkv7",
)
KINDS = (
    "llama",
    "llama, sliding",
    "gemma4_text",
    "llama4",
    "qwen3_5",
    "lfm2",
    "falcon_h1",
    "mamba",
    "recurrent_gemma",
    "rwkv7",
)
"""One family for each way to keep a state."""
DRAFTED = (
    "llama",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "qwen3_5",
    "qwen3_5_moe",
    "gpt_oss",
    "gemma3_text",
    "gemma4_text",
)
"""Those that published drafts were trained for, and their next of kin."""
QUANTISED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("qwen3", {"bits": 4}),
    ("qwen3_moe", {"bits": 4}),
    ("gemma4_text", {"bits": 5}),
    ("gemma3_text", {"bits": 6}),
    ("qwen3_5", {"bits": 8}),
    ("qwen3_5_moe", {"bits": 4}),
    ("gpt_oss", {"bits": 4, "mode": "mxfp4"}),
)


def family_config(name: str, **changes: object) -> dict[str, Any]:
    """The `config.json` of a tiny model of this family; `changes` to the fields of its text model."""
    if "vocab_size" in changes:
        changes["vocab_size_per_layer_input"] = changes["vocab_size"]
    family = _FAMILIES[name]
    if "text_config" in family:
        text = {**family["text_config"], **changes}
        return {"model_type": name, "text_config": text, "vocab_size": text["vocab_size"]}
    return {**_COMMON, "model_type": name.split(",")[0], **family, **changes}


def family_model(config: dict[str, Any], seed: int = 0) -> nn.Module:
    """A random model of mlx-lm's class for this config."""
    mx.random.seed(seed)
    module = import_module(f"mlx_lm.models.{config['model_type']}")
    return randomised(module.Model(module.ModelArgs.from_dict(config)))


def family_target(name: str, context_length: int = 512) -> Target:
    """A random target of this family."""
    return Target(family_model(family_config(name)), context_length)


def quantised_target(name: str, **quantisation: Any) -> Target:
    """The same, every matrix that fills its groups quantised."""
    model = family_model(family_config(name))
    nn.quantize(
        model,
        group_size=32,
        class_predicate=lambda _, module: hasattr(module, "to_quantized") and module.weight.shape[-1] % 32 == 0,
        **quantisation,
    )
    mx.eval(model.parameters())
    return Target(model, 512)
