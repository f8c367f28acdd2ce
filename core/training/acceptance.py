"""How many tokens of a draft's block are right, on held-out conversations that the target wrote greedily.

Measured without decoding: what stands in a greedy conversation is what verification would choose, up to numerics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from core.engine.drafter_mlx import DFlashDraft
from core.engine.target import Target
from core.training.blocks import make_blocks
from core.training.corpus import Conversation
from core.training.objective import Features, block_rows, features_of

WIDTH = 8
"""Rows of a verification: 7 proposals count."""
_ANCHORS = 32


@dataclass(frozen=True)
class Acceptance:
    """Over all held-out blocks."""

    by_position: tuple[float, ...]
    """The share of blocks whose first k tokens are all right, for k = 1, 2, ..."""

    @property
    def tokens_per_step(self) -> float:
        """Accepted tokens and the target's own one."""
        return 1 + sum(self.by_position)


class HeldOut:
    """Conversations that are never trained on, and what the target made of them."""

    def __init__(self, conversations: Sequence[Conversation], target: Target) -> None:
        self._target = target
        self._items: list[tuple[Conversation, npt.NDArray[np.int32], Features]] = []
        for index, conversation in enumerate(conversations):
            last = len(conversation.ids) - WIDTH
            if last > conversation.answer_start:
                anchors = np.random.default_rng(index).integers(conversation.answer_start, last, _ANCHORS)
                self._items.append((conversation, anchors.astype(np.int32), features_of(conversation, target)))

    def measure(self, draft: DFlashDraft) -> Acceptance:
        """The acceptance of a draft, greedy, at width 8."""
        right = np.concatenate([self._right(draft, *item) for item in self._items])
        return Acceptance(tuple(float(share) for share in right.mean(axis=0)))

    def _right(
        self, draft: DFlashDraft, conversation: Conversation, anchors: npt.NDArray[np.int32], features: Features
    ) -> npt.NDArray[np.bool_]:
        """[anchors, width - 1]: whether all proposals up to this one equal the conversation."""
        known = np.zeros(len(anchors), np.int64)
        blocks = make_blocks(conversation, anchors, known, draft.config.block_size, draft.config.mask_token_id)
        rows = block_rows(draft, self._target, features.taps, blocks)[:, 1:WIDTH]
        proposals = np.array(mx.argmax(self._target.lm_head(rows), axis=-1))
        return np.cumprod(proposals == blocks.labels[:, 1:WIDTH], axis=1).astype(np.bool_)
