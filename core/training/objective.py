"""The loss of a draft on blocks of one conversation, all blocks in one pass of the engine's own draft modules.

The pass is written out here, because at training all blocks share one context: `blocks_attention` reads it without a
copy for each. It takes arrays alone, so that a whole step can be compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from core.engine.drafter_mlx import DFlashDraft
from core.engine.target import Target
from core.training.attention import blocks_attention, compiled_attention, exponentials, swiglu
from core.training.blocks import Blocks
from core.training.corpus import Conversation, Ids

SOFT_SHARE = 0.7
"""Of the target's distribution in the labels; the rest is the token that was written."""
REACHED_SHARE = 0.8
"""Of a row's weight that is earned: by how likely the draft is right in all rows before it."""
_LENGTH_STEP = 32
_VOCABULARY_STEP = 256
"""Lengths and vocabularies are filled up to multiples of these: a compiled function is traced for every shape."""


@dataclass(frozen=True)
class Features:
    """What the target made of a conversation of L tokens."""

    taps: tuple[mx.array, ...]
    """[L, hidden] a tap."""
    rows: mx.array
    """[L, hidden] after the final norm: row i predicts token i + 1."""


def features_of(conversation: Conversation, target: Target) -> Features:
    """One pass of the target, evaluated."""
    with compiled_attention(target):
        rows, taps = target.final_rows(mx.array(conversation.ids))
    mx.eval(rows, taps)
    return Features(taps, rows)


class Batch(NamedTuple):
    """What the loss of b blocks of n columns in one conversation depends on, beside the draft: arrays alone."""

    taps: tuple[mx.array, ...]
    """[m, hidden] a tap; the rows beyond the conversation are zero, and no block sees them."""
    embedded: mx.array
    """[b, n, hidden]: what the blocks read."""
    anchors: mx.array
    """[b]."""
    weights: mx.array
    """[b, n - 1]: of the rows behind the anchors, before what they earn."""
    head: mx.array
    """[vocabulary, hidden]."""
    aims: mx.array
    """[b * (n - 1), hidden]: each row's mean of the head over its labels."""
    written: mx.array
    """[b * (n - 1), hidden]: the head of the token that was written."""


def make_batch(draft: DFlashDraft, target: Target, features: Features, blocks: Blocks, vocabulary: Ids) -> Batch:
    """The batch of blocks of the conversation whose features these are.

    Labels are `SOFT_SHARE` of the target's distribution and the rest of the token itself. Both models are compared
    over `vocabulary` alone (sorted token ids, which hold every label).
    """
    length, config = len(features.rows), draft.config
    embedded = target.embed(mx.array(blocks.tokens)) * config.input_embedding_scale
    head = target.head_weights(mx.array(vocabulary))
    hard = head[mx.array(np.searchsorted(vocabulary, blocks.labels[:, 1:].reshape(-1)))]
    # The row before a token predicts it; what lies beyond the end has no weight.
    before = np.minimum(blocks.anchors[:, None] + np.arange(blocks.tokens.shape[1] - 1), length - 1)
    soft = _mean_head(features.rows, head)[mx.array(before.reshape(-1))]
    return Batch(
        tuple(mx.pad(tap, [(0, -length % _LENGTH_STEP), (0, 0)]) for tap in features.taps),
        embedded,
        mx.array(blocks.anchors),
        mx.array(blocks.weights[:, 1:]),
        head * config.output_multiplier,
        (SOFT_SHARE * soft + (1 - SOFT_SHARE) * hard) * config.output_multiplier,
        hard * config.output_multiplier,
    )


def _mean_head(rows: mx.array, head: mx.array) -> mx.array:
    """[L, hidden]: the mean of the head under the distribution that each of the target's rows gives."""
    logits = rows @ head.T
    weights = exponentials(logits, logits.max(axis=-1, keepdims=True))
    return (weights @ head) / weights.sum(axis=-1, keepdims=True)


def block_rows(draft: DFlashDraft, target: Target, taps: Sequence[mx.array], blocks: Blocks) -> mx.array:
    """[b, n, hidden] rows after the draft's final norm, for blocks of the text whose taps these are."""
    embedded = target.embed(mx.array(blocks.tokens)) * draft.config.input_embedding_scale
    return _rows(draft, taps, embedded, mx.array(blocks.anchors))


def _rows(draft: DFlashDraft, taps: Sequence[mx.array], rows: mx.array, anchors: mx.array) -> mx.array:
    """As `block_rows`, from what the blocks read."""
    seen = mx.arange(taps[0].shape[0]) < anchors[:, None]
    context = draft.context_rows(taps)
    for layer in draft.layers:
        own = layer.self_attn
        keys, values = own.keys_values(context, draft.rope, 0)
        normed = layer.input_layernorm(rows)
        queries = own.q_norm(own.q_proj(normed).reshape(*rows.shape[:2], own.heads, -1).transpose(0, 2, 1, 3))
        queries = draft.rope(queries, offset=anchors) * own.scale
        near = own.keys_values(normed, draft.rope, anchors)
        attended = blocks_attention(queries, (keys[0], values[0]), near, seen)
        rows = rows + own.o_proj(attended.transpose(0, 2, 1, 3).reshape(*rows.shape[:2], -1))
        normed = layer.post_attention_layernorm(rows)
        rows = rows + layer.mlp.down_proj(swiglu(layer.mlp.gate_proj(normed), layer.mlp.up_proj(normed)))
    return draft.norm(rows)


def loss_sum(draft: DFlashDraft, batch: Batch) -> tuple[mx.array, mx.array]:
    """The weighted cross-entropy, summed over the batch's rows, and the sum of the weights.

    A row counts for what it can add, since a right token behind a wrong one is thrown away: in the gradient of the
    expected number of accepted tokens, the sum over k of p_1 ... p_k, that of p_k has p_1 ... p_(k-1) as a factor.
    """
    losses, probabilities = row_losses(draft, batch)
    weights = earned_weights(batch.weights, probabilities)
    return (weights * losses).sum(), weights.sum()


def row_losses(draft: DFlashDraft, batch: Batch) -> tuple[mx.array, mx.array]:
    """[b, n - 1] cross-entropy of each row behind an anchor, and the draft's probability of the token written there."""
    rows = _rows(draft, batch.taps, batch.embedded, batch.anchors)[:, 1:].reshape(-1, batch.embedded.shape[-1])
    logits = rows @ batch.head.T
    greatest = mx.stop_gradient(logits.max(axis=-1, keepdims=True))
    log_sum = mx.log(mx.exp(logits - greatest).sum(axis=-1)) + greatest[:, 0]
    losses = log_sum - (rows * batch.aims).sum(axis=-1)
    probabilities = mx.exp((rows * batch.written).sum(axis=-1) - log_sum)
    return losses.reshape(batch.weights.shape), probabilities.reshape(batch.weights.shape)


def earned_weights(weights: mx.array, probabilities: mx.array) -> mx.array:
    """[b, n - 1]: of what each row's weight is, `REACHED_SHARE` depends on the rows before it. No gradient."""
    # Known tokens, which have no weight, are right.
    right = mx.where(weights > 0, mx.stop_gradient(probabilities), 1)
    reached = mx.cumprod(right, axis=-1, inclusive=False)
    return mx.where(weights > 0, REACHED_SHARE * reached + (1 - REACHED_SHARE) * weights, 0)


def step_vocabulary(conversations: Sequence[Conversation], frequent: Ids, vocab_size: int) -> Ids:
    """The tokens that a step is trained against: those of its conversations and the frequent ones, sorted.

    Filled up with the tokens of the lowest ids.
    """
    wanted = np.unique(np.concatenate([frequent, *(conversation.ids for conversation in conversations)]))
    size = min(vocab_size, len(wanted) + -len(wanted) % _VOCABULARY_STEP)
    others = np.setdiff1d(np.arange(vocab_size, dtype=np.uint32), wanted, assume_unique=True)
    return np.sort(np.concatenate([wanted, others[: size - len(wanted)]]))
