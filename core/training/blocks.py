"""Blocks to train on: an anchor anywhere in an answer, perhaps some known tokens after it, masks for the rest.

A quarter of the blocks has a known prefix, as the branches that are drafted while a verification runs have
(branch-complete drafting): the first tokens after the anchor are given, although their features are not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from core.training.corpus import Conversation

KNOWN_SHARE = 0.25
SHORT_SHARE = 0.5
"""Half of the steps use half a block: loaders cut the block to the width they verify, or leave it whole."""
_GAMMA_OF_BLOCK = {8: 4.0, 10: 5.0, 16: 7.0}


@dataclass(frozen=True)
class Blocks:
    """`b` blocks of `n` columns within one conversation of `length` tokens."""

    anchors: npt.NDArray[np.int32]
    """[b] positions; block row i stands at anchor + i."""
    tokens: npt.NDArray[np.uint32]
    """[b, n] what the draft reads: anchor, known tokens, masks."""
    labels: npt.NDArray[np.uint32]
    """[b, n] the conversation's tokens at the rows' positions (0 beyond its end)."""
    weights: npt.NDArray[np.float32]
    """[b, n] of each row in the loss; 0 for what is known and for what lies beyond the end."""


def draw_blocks(
    conversation: Conversation, count: int, columns: int, mask_token: int, random: np.random.Generator
) -> Blocks:
    """`count` blocks with anchors among the answer's tokens; row i is worth exp(-(i - known - 1) / gamma)."""
    length = len(conversation.ids)
    anchors = random.integers(conversation.answer_start, length - 1, count).astype(np.int32)
    known = np.where(random.random(count) < KNOWN_SHARE, random.integers(1, columns // 2 + 1, count), 0)
    return make_blocks(conversation, anchors, known, columns, mask_token)


def make_blocks(
    conversation: Conversation,
    anchors: npt.NDArray[np.int32],
    known: npt.NDArray[np.int64],
    columns: int,
    mask_token: int,
) -> Blocks:
    """Blocks at these anchors ([b]), with so many known tokens each ([b])."""
    ids = np.concatenate([conversation.ids, np.zeros(columns, np.uint32)])
    rows = np.arange(columns)
    positions = anchors[:, None] + rows
    labels = ids[positions]
    masked = rows > known[:, None]
    within = positions < len(conversation.ids)
    reach = rows - known[:, None]
    weights = np.where(masked & within, np.exp(-(reach - 1) / gamma(columns)), 0).astype(np.float32)
    return Blocks(anchors, np.where(masked, np.uint32(mask_token), labels), labels, weights)


def gamma(columns: int) -> float:
    """The decay of the weights: the values of the DFlash paper, and their line between and beyond."""
    return _GAMMA_OF_BLOCK.get(columns, max(1.0, 0.4 * columns + 0.7))
