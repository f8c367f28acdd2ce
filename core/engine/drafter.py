"""What a drafter is, and what every one has in common: the block that it reads and the logits that it ends in.

A draft has neither embedding nor LM head: both are the target's.
"""

from __future__ import annotations

from typing import Protocol

import mlx.core as mx

from core.engine.context import DraftContext
from core.engine.selector import Said
from core.engine.target import Target
from core.formats.draft_config import DraftConfig


class Drafter(Protocol):
    """Proposes the tokens that follow a conversation."""

    @property
    def config(self) -> DraftConfig:
        """The draft's."""
        ...

    @property
    def block_size(self) -> int:
        """Rows of a block: the anchor and its proposals."""
        ...

    def ingest(self, context: DraftContext) -> None:
        """Turn the context's queued tap rows into K/V."""
        ...

    def propose(self, anchor: mx.array, context: DraftContext, rows: int) -> Said:
        """What it says of the `rows` positions after `anchor` ([1] token, at position context.length).

        The block keeps the size it was trained for; only the rows asked for go through the LM head.
        """
        ...


def masked_block(anchor: mx.array, config: DraftConfig) -> mx.array:
    """[block size] tokens: `anchor` ([1]) and masks."""
    return mx.concatenate([anchor, mx.full(config.block_size - 1, config.mask_token_id, dtype=mx.uint32)])


def embed(tokens: mx.array, target: Target, config: DraftConfig) -> mx.array:
    """[n, hidden]: what a draft reads of [n] tokens."""
    return target.embed(tokens) * config.input_embedding_scale


def head(hidden: mx.array, target: Target, config: DraftConfig) -> mx.array:
    """[n, vocabulary] logits of a draft's [n, hidden] rows after its final norm."""
    logits = target.lm_head(hidden) * config.output_multiplier
    cap = config.final_logit_softcapping
    return logits if cap is None else mx.tanh(logits / cap) * cap
