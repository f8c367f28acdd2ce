"""A tiny target that a draft can learn: nearly a Markov chain over one cycle of tokens."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from core.engine.target import Target
from core.training.synthesis import Frame
from helpers.tiny import VOCABULARY, tiny_target

_FIRST = 10
_END = 50
FRAME = Frame(before=(5, 6), between=(7, 8), ends=frozenset({_END}))
"""As a chat template's: the cycle passes the end, so messages and answers end."""


def chain_target() -> Target:
    """Tokens from 10 on follow each other in one fixed cycle, now and then with a jump."""
    target = tiny_target()
    hidden = target.hidden_size
    for layer in target.layers:
        for linear in (layer.self_attn.o_proj, layer.mlp.down_proj):
            linear.weight = linear.weight * 0.05  # the residual stream stays close to the embedding
    embedding = mx.random.normal((VOCABULARY, hidden), key=mx.random.key(3))
    target.model.model.embed_tokens.weight = embedding
    order = np.random.default_rng(0).permutation(np.arange(_FIRST, VOCABULARY))
    head = np.zeros((VOCABULARY, hidden), np.float32)
    head[np.roll(order, -1)] = np.array(embedding)[order]
    target.model.lm_head.weight = mx.array(head * 1.5)
    return target
