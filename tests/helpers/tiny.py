"""Tiny random models: a target of mlx-lm's own class and a DFlash draft, small enough for hundreds of runs."""

from __future__ import annotations

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_map
from mlx_lm.models.llama import Model, ModelArgs

from core.engine.drafter_mlx import DFlashDraft, MlxDrafter
from core.engine.target import Target
from core.formats.draft_config import DraftConfig

VOCABULARY = 96
BLOCK = 8
MASK = 1
LAYERS = 4


def tiny_target(seed: int = 0, context_length: int = 512, head_dim: int = 8, layers: int = LAYERS) -> Target:
    """A random llama whose greedy text wanders instead of repeating one token."""
    mx.random.seed(seed)
    args = ModelArgs(
        model_type="llama",
        hidden_size=32,
        num_hidden_layers=layers,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        vocab_size=VOCABULARY,
        head_dim=head_dim,
        max_position_embeddings=context_length,
        rope_theta=1e4,
        tie_word_embeddings=False,
    )
    return Target(randomised(Model(args)), context_length)


def tiny_config(**changes: object) -> DraftConfig:
    """The config of a draft for `tiny_target`."""
    fields: dict[str, object] = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 64,
        "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 512,
        "rope_theta": 1e4,
        "rope_scaling": None,
        "num_target_layers": LAYERS,
        "block_size": BLOCK,
        "target_layer_ids": (0, 2),
        "mask_token_id": MASK,
        "layer_types": ("full_attention", "full_attention"),
        "sliding_window": None,
        "is_causal": None,
        "final_logit_softcapping": None,
        "input_embedding_scale": 1.0,
        "output_multiplier": 1.0,
    }
    return DraftConfig(**{**fields, **changes})  # type: ignore[arg-type]


def tiny_drafter(target: Target, seed: int = 1, **changes: object) -> MlxDrafter:
    """A random draft, with its taps put on the target."""
    config = tiny_config(**changes)
    target.set_taps(config.target_layer_ids)
    return MlxDrafter(random_draft(config, seed), target)


def random_draft(config: DraftConfig, seed: int = 1) -> DFlashDraft:
    """A random draft model."""
    mx.random.seed(seed)
    return randomised(DFlashDraft(config))


def randomised(model: nn.Module) -> nn.Module:
    """Weights three times as large as the usual start, norms near one."""
    model.update(
        tree_map(lambda w: mx.random.normal(w.shape) * (0.5 if w.ndim > 1 else 0.1) + (w.ndim == 1), model.parameters())
    )
    mx.eval(model.parameters())
    return model
