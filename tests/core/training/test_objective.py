"""Training computes what the engine computes, and the loss is the cross-entropy that it says."""

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_unflatten

from core.engine.context import DraftContext
from core.engine.drafter_mlx import MlxDrafter
from core.training.blocks import draw_blocks, make_blocks
from core.training.corpus import Conversation
from core.training.objective import (
    REACHED_SHARE,
    SOFT_SHARE,
    block_rows,
    earned_weights,
    features_of,
    loss_sum,
    make_batch,
    row_losses,
    step_vocabulary,
)
from helpers.tiny import MASK, VOCABULARY, random_draft, tiny_config, tiny_target

TALK = Conversation(np.random.default_rng(0).integers(2, VOCABULARY, 40).astype(np.uint32), 10, 0.0)


@pytest.fixture(scope="module")
def target():
    target = tiny_target()
    target.set_taps(tiny_config().target_layer_ids)
    return target


@pytest.fixture(scope="module")
def draft():
    return random_draft(tiny_config())


def test_the_rows_of_all_blocks_at_once_are_those_the_engine_drafts_with_one_by_one(target, draft):
    drafter = MlxDrafter(draft, target)
    anchors = np.array([10, 11, 25, 38], np.int32)
    blocks = make_blocks(TALK, anchors, np.zeros(4, np.int64), 8, MASK)
    together = target.lm_head(block_rows(draft, target, features_of(TALK, target).taps, blocks))
    for index, anchor in enumerate(anchors.tolist()):
        context = DraftContext(drafter.config.num_hidden_layers)
        forward = target.forward(mx.array(TALK.ids[:anchor]), target.make_cache())
        context.queue(forward.taps)
        alone = drafter.propose(mx.array(TALK.ids[anchor : anchor + 1]), context, 7)
        assert np.allclose(np.array(together[index, 1:]), np.array(alone), atol=1e-4)


def test_the_loss_is_the_weighted_cross_entropy_with_soft_and_hard_labels(target, draft):
    blocks = draw_blocks(TALK, 6, 8, MASK, np.random.default_rng(1))
    features = features_of(TALK, target)
    batch = make_batch(draft, target, features, blocks, np.arange(VOCABULARY, dtype=np.uint32))
    found, found_weight = loss_sum(draft, batch)
    logits = np.array(target.lm_head(block_rows(draft, target, features.taps, blocks)), np.float64)
    theirs = np.array(target.lm_head(features.rows), np.float64)
    expected, weight, reached = 0.0, 0.0, np.ones(len(blocks.anchors))
    for b, i in zip(*np.nonzero(blocks.weights), strict=True):  # row after row of a block
        position = blocks.anchors[b] + i
        log_q = logits[b, i] - np.logaddexp.reduce(logits[b, i])
        p = np.exp(theirs[position - 1] - np.logaddexp.reduce(theirs[position - 1]))
        labels = SOFT_SHARE * p
        labels[TALK.ids[position]] += 1 - SOFT_SHARE
        earned = REACHED_SHARE * reached[b] + (1 - REACHED_SHARE) * blocks.weights[b, i]
        reached[b] *= np.exp(log_q[TALK.ids[position]])
        expected -= earned * (labels * log_q).sum()
        weight += earned
    assert found.item() == pytest.approx(expected, rel=1e-4)
    assert found_weight.item() == pytest.approx(weight, rel=1e-4)


def test_a_row_earns_its_weight_by_the_rows_before_it_and_known_ones_are_right():
    weights = mx.array([[1.0, 0.5, 0.25, 0.0], [0.0, 1.0, 0.5, 0.25]])
    probabilities = mx.array([[0.5, 0.5, 1.0, 1.0], [0.1, 0.25, 0.0, 1.0]])
    share, rest = REACHED_SHARE, 1 - REACHED_SHARE
    first = [share + rest, share / 2 + rest / 2, share / 4 + rest / 4, 0]
    second = [0, share + rest, share / 4 + rest / 2, rest / 4]
    assert np.allclose(np.array(earned_weights(weights, probabilities)), [first, second])


def test_a_part_of_the_vocabulary_compares_both_models_over_that_part(target, draft):
    blocks = draw_blocks(TALK, 6, 8, MASK, np.random.default_rng(1))
    features = features_of(TALK, target)
    part = np.unique(TALK.ids)
    losses = [
        row_losses(draft, make_batch(draft, target, features, blocks, vocabulary))[0].sum().item()
        for vocabulary in (part, np.arange(VOCABULARY, dtype=np.uint32))
    ]
    assert 0 < losses[0] < losses[1]


def test_a_steps_vocabulary_is_its_tokens_filled_up_with_the_lowest_ids():
    frequent = np.array([2, 700], np.uint32)
    found = step_vocabulary([TALK], frequent, 1000)
    wanted = {2, 700, *TALK.ids.tolist()}
    assert len(found) == 256
    assert found.tolist() == sorted(
        {*wanted, *[token for token in range(256) if token not in wanted][: 256 - len(wanted)]}
    )
    assert step_vocabulary([TALK], frequent[:1], VOCABULARY).tolist() == list(range(VOCABULARY))


def test_the_gradients_of_the_compiled_loss_are_those_of_the_plain_one(target, draft):
    blocks = draw_blocks(TALK, 6, 8, MASK, np.random.default_rng(1))
    batch = make_batch(draft, target, features_of(TALK, target), blocks, np.arange(VOCABULARY, dtype=np.uint32))
    weights = draft.trainable_parameters()

    def loss(changed):
        draft.update(changed)
        return (batch.weights * row_losses(draft, batch)[0]).sum()

    _, gradients = mx.compile(mx.value_and_grad(loss))(weights)
    draft.update(weights)
    shift = 1e-2
    random = np.random.default_rng(2)
    for name, gradient in tree_flatten(gradients):
        direction = mx.array(random.standard_normal(gradient.shape).astype(np.float32))
        direction /= mx.linalg.norm(direction)
        sides = []
        for sign in (1, -1):
            moved = dict(tree_flatten(weights))
            moved[name] = moved[name] + sign * shift * direction
            sides.append(loss(tree_unflatten(list(moved.items()))).item())
        draft.update(weights)
        assert (sides[0] - sides[1]) / (2 * shift) == pytest.approx((gradient * direction).sum().item(), abs=2e-2), name


def test_features_are_those_of_decoding(target):
    features = features_of(TALK, target)
    forward = target.forward(mx.array(TALK.ids), target.make_cache())
    assert np.allclose(np.array(target.lm_head(features.rows)), np.array(forward.logits), atol=1e-4)
    for mine, theirs in zip(features.taps, forward.taps, strict=True):
        assert np.allclose(np.array(mine), np.array(theirs), atol=1e-3)


@pytest.mark.parametrize("bits", [None, 4, 8])
def test_the_heads_rows_are_those_that_make_the_logits(bits):
    from mlx import nn

    target = tiny_target()
    if bits:
        nn.quantize(target.model, group_size=32, bits=bits)
    rows = mx.random.normal((3, 32), key=mx.random.key(0))
    chosen = mx.array([0, 7, 95])
    assert np.allclose(
        np.array(rows @ target.head_weights(chosen).T), np.array(target.lm_head(rows)[:, chosen]), atol=1e-4
    )


def test_blocks_drafted_ahead_know_the_tokens_but_not_their_features(target, draft):
    """A fresh block's rows depend on the features up to its anchor; one with known tokens sees them as tokens."""
    taps = features_of(TALK, target).taps
    fresh = make_blocks(TALK, np.array([20], np.int32), np.array([0]), 8, MASK)
    ahead = make_blocks(TALK, np.array([17], np.int32), np.array([3]), 8, MASK)
    changed = tuple(mx.concatenate([tap[:17], tap[17:] + 1]) for tap in taps)
    rows = [np.array(block_rows(draft, target, features, b)) for b in (fresh, ahead) for features in (taps, changed)]
    assert not np.allclose(rows[0], rows[1], atol=1e-3)
    assert np.array_equal(rows[2], rows[3])
    other = make_blocks(Conversation(TALK.ids[::-1].copy(), 10, 0.0), np.array([17], np.int32), np.array([3]), 8, MASK)
    assert not np.allclose(rows[2], np.array(block_rows(draft, target, taps, other)), atol=1e-3)
