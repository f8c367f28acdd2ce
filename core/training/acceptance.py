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
_ANCHORS = 64
"""In a conversation, evenly over its answer."""


@dataclass(frozen=True)
class Acceptance:
    """Over all held-out blocks."""

    by_position: tuple[float, ...]
    """The share of blocks whose first k tokens are all right, for k = 1, 2, ..."""

    @property
    def tokens_per_step(self) -> float:
        """Accepted tokens and the target's own one."""
        return 1 + sum(self.by_position)


def after_branch_hits(
    draft: DFlashDraft, target: Target, prompt: Sequence[int], answer: Sequence[int], steps: Sequence[int]
) -> tuple[int, int]:
    """Tokens that blocks drafted ahead would have given on the way through an answer, and those of fresh blocks.

    A block drafted ahead for the outcome that came true knows the tokens of the step that was being verified, but not
    their features. It has masks within the block only, and is compared with a fresh block cut to as many. `steps` are
    the tokens of each step, the first token not counted.
    """
    ids = np.array([*prompt, *answer], np.uint32)
    conversation = Conversation(ids, len(prompt), 0.0)
    ends = len(prompt) + np.cumsum([0, *steps])
    anchors, known = ends[:-1], np.array(steps)
    room = draft.config.block_size - 1 - known
    usable = (room > 0) & (ends[1:] + 1 < len(ids))
    if not usable.any():
        return 0, 0
    anchors, known, room = anchors[usable], known[usable], np.minimum(room[usable], WIDTH - 1)
    features = features_of(conversation, target)
    ahead = _accepted(draft, target, conversation, features, anchors, known, room)
    fresh = _accepted(draft, target, conversation, features, anchors + known, np.zeros_like(known), room)
    return int((ahead + 1).sum()), int((fresh + 1).sum())


def _accepted(
    draft: DFlashDraft,
    target: Target,
    conversation: Conversation,
    features: Features,
    anchors: npt.NDArray[np.int64],
    known: npt.NDArray[np.int64],
    room: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """[b]: how many tokens behind the known ones are right, `room` at most."""
    config = draft.config
    blocks = make_blocks(conversation, anchors.astype(np.int32), known, config.block_size, config.mask_token_id)
    asked = slice(1, int((known + room).max()) + 1)  # no other row goes through the LM head
    rows = block_rows(draft, target, features.taps, blocks)[:, asked]
    right = np.array(mx.argmax(target.lm_head(rows), axis=-1)) == blocks.labels[:, asked]
    positions = np.arange(asked.start, asked.stop)
    given = positions <= known[:, None]
    # Known rows count as right; the first wrong one behind them ends the block.
    kept = np.cumprod(given | (right & (blocks.weights[:, asked] > 0)), axis=1).astype(np.bool_)
    return (kept & ~given & (positions <= (known + room)[:, None])).sum(axis=1)


class HeldOut:
    """Conversations that are never trained on, and what the target made of them."""

    def __init__(self, conversations: Sequence[Conversation], target: Target) -> None:
        self._target = target
        self._items: list[tuple[Conversation, npt.NDArray[np.int64], Features]] = []
        for conversation in conversations:
            last = len(conversation.ids) - WIDTH
            if last > conversation.answer_start:
                anchors = np.linspace(conversation.answer_start, last - 1, _ANCHORS).round().astype(np.int64)
                self._items.append((conversation, anchors, features_of(conversation, target)))

    def measure(self, draft: DFlashDraft) -> Acceptance:
        """The acceptance of a draft, greedy, at width 8."""
        proposals = min(WIDTH, draft.config.block_size) - 1
        known, room = np.zeros(_ANCHORS, np.int64), np.full(_ANCHORS, proposals)
        accepted = np.concatenate(
            [
                _accepted(draft, self._target, conversation, features, anchors, known, room)
                for conversation, anchors, features in self._items
            ]
        )
        return Acceptance(tuple(float((accepted >= k).mean()) for k in range(1, proposals + 1)))
