"""Blocks drawn from a conversation: anchors in the answer, known prefixes, weights that fall."""

import numpy as np
import pytest

from core.training.blocks import KNOWN_SHARE, draw_blocks, gamma, make_blocks
from core.training.corpus import Conversation

MASK = 1
TALK = Conversation(np.arange(100, 160, dtype=np.uint32), 20, 0.0)


def drawn(count=2000, columns=16):
    return draw_blocks(TALK, count, columns, MASK, np.random.default_rng(0))


def test_anchors_stand_in_the_answer_and_have_a_token_after_them():
    anchors = drawn().anchors
    assert anchors.min() == TALK.answer_start
    assert anchors.max() == len(TALK.ids) - 2


def test_a_quarter_of_the_blocks_knows_up_to_half_a_block():
    tokens = drawn().tokens
    known = (tokens[:, 1:] != MASK).sum(axis=1)
    assert (known > 0).mean() == pytest.approx(KNOWN_SHARE, abs=0.04)
    assert known.max() == 8


def test_known_tokens_come_first_and_are_the_texts_own():
    blocks = drawn()
    for row, anchor in zip(blocks.tokens, blocks.anchors, strict=True):
        known = int((row != MASK).sum())
        assert (row[known:] == MASK).all()
        end = min(known, len(TALK.ids) - anchor)
        assert row[:end].tolist() == TALK.ids[anchor : anchor + end].tolist()


def test_labels_are_the_texts_tokens_and_nothing_beyond_its_end_counts():
    blocks = drawn()
    positions = blocks.anchors[:, None] + np.arange(16)
    counted = blocks.weights > 0
    assert (positions[counted] < len(TALK.ids)).all()
    assert (blocks.labels[counted] == TALK.ids[positions[counted]]).all()
    assert not counted[:, 0].any()


def test_weights_fall_from_the_first_unknown_token_on():
    blocks = make_blocks(TALK, np.array([30, 30], np.int32), np.array([0, 3]), 8, MASK)
    falling = np.exp(-np.arange(7) / 4)
    assert blocks.weights[0, 1:] == pytest.approx(falling)
    assert blocks.weights[1, :4].tolist() == [0, 0, 0, 0]
    assert blocks.weights[1, 4:] == pytest.approx(falling[:4])


def test_gamma_is_that_of_the_paper_for_its_blocks():
    assert [gamma(columns) for columns in (8, 10, 16)] == [4, 5, 7]
    assert gamma(8) < gamma(12) < gamma(16) < gamma(32)
