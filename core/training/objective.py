"""The loss of a draft on blocks of one conversation, all blocks in one pass of the engine's own draft module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from core.engine.drafter_mlx import ContextView, DFlashDraft
from core.engine.target import Target
from core.training.blocks import Blocks
from core.training.corpus import Conversation, Ids

SOFT_SHARE = 0.7
"""Of the target's distribution in the labels; the rest is the token that was written."""


@dataclass(frozen=True)
class Features:
    """What the target made of a conversation of L tokens."""

    taps: tuple[mx.array, ...]
    """[L, hidden] a tap."""
    rows: mx.array
    """[L, hidden] after the final norm: row i predicts token i + 1."""


def features_of(conversation: Conversation, target: Target) -> Features:
    """One pass of the target, evaluated."""
    rows, taps = target.final_rows(mx.array(conversation.ids))
    mx.eval(rows, taps)
    return Features(taps, rows)


class _BlocksView:
    """Blocks at any positions of one text: each sees the context before its anchor, and itself."""

    def __init__(self, keys: mx.array, values: mx.array, anchors: mx.array, mask: mx.array) -> None:
        self.position = anchors
        self._keys = keys
        self._values = values
        self._mask = mask

    def extend(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array, mx.array | None]:
        """See `ContextView`."""
        blocks = keys.shape[0]
        context_keys, context_values = (
            mx.broadcast_to(part, (blocks, *part.shape[1:])) for part in (self._keys, self._values)
        )
        return (
            mx.concatenate([context_keys, keys], axis=2),
            mx.concatenate([context_values, values], axis=2),
            self._mask,
        )


def block_rows(draft: DFlashDraft, target: Target, taps: Sequence[mx.array], blocks: Blocks) -> mx.array:
    """[b, n, hidden] rows after the draft's final norm, for blocks of the text whose taps these are."""
    length, columns = taps[0].shape[0], blocks.tokens.shape[1]
    anchors = mx.array(blocks.anchors)
    context = mx.arange(length) < anchors[:, None]
    mask = mx.concatenate([context, mx.ones((len(blocks.anchors), columns), mx.bool_)], axis=1)[:, None, None]
    rows = draft.context_rows(taps)
    views: list[ContextView] = [
        _BlocksView(*layer.self_attn.keys_values(rows, draft.rope, 0), anchors, mask) for layer in draft.layers
    ]
    embedded = target.embed(mx.array(blocks.tokens)) * draft.config.input_embedding_scale
    return draft(embedded, views)


def loss_sum(
    draft: DFlashDraft, target: Target, features: Features, blocks: Blocks, vocabulary: Ids
) -> tuple[mx.array, mx.array]:
    """The weighted cross-entropy over the rows with a weight, summed, and the sum of the weights.

    Labels are `SOFT_SHARE` of the target's distribution and the rest of the token itself. Both models are compared
    over `vocabulary` alone (sorted token ids, which hold every label).
    """
    chosen = np.flatnonzero(blocks.weights)
    weights = mx.array(blocks.weights.reshape(-1)[chosen])
    head = target.head_weights(mx.array(vocabulary))
    rows = block_rows(draft, target, features.taps, blocks)
    rows = rows.reshape(-1, rows.shape[-1])[mx.array(chosen)]
    logits = (rows @ head.T) * draft.config.output_multiplier
    positions = (blocks.anchors[:, None] + np.arange(blocks.tokens.shape[1])).reshape(-1)[chosen]
    soft = _distributions(features.rows, head, positions)
    hard = mx.array(np.searchsorted(vocabulary, blocks.labels.reshape(-1)[chosen]))
    expected = SOFT_SHARE * (soft * logits).sum(axis=-1)
    expected += (1 - SOFT_SHARE) * mx.take_along_axis(logits, hard[:, None], axis=-1)[:, 0]
    return (weights * (mx.logsumexp(logits, axis=-1) - expected)).sum(), weights.sum()


def _distributions(rows: mx.array, head: mx.array, positions: np.ndarray) -> mx.array:
    """[m, vocabulary]: the target's distribution of the token at each position; each text row is computed once."""
    distinct, where = np.unique(positions - 1, return_inverse=True)
    return mx.softmax(rows[mx.array(distinct)] @ head.T, axis=-1)[mx.array(where.reshape(-1))]


def step_vocabulary(conversations: Sequence[Conversation], frequent: Ids) -> Ids:
    """The tokens that a step is trained against: those of its conversations and the frequent ones, sorted."""
    return np.unique(np.concatenate([frequent, *(conversation.ids for conversation in conversations)]))
