"""A tiny target with one random draft in MLX and as programs, and samplers that say what a draft said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

import ane
from core.engine.branches import ALTERNATIVES, MAX_PROPOSALS, Budget, Outcomes
from core.engine.draft_thread import DraftThread
from core.engine.drafter_ane import AneDrafter
from core.engine.drafter_mlx import MlxDrafter
from core.engine.sampling import Sampler
from core.engine.selector import Said
from core.engine.session import Session
from core.engine.sources_ane import AneSource, MirrorSource
from helpers.random_drafts import mlx_draft, random_weights, write_draft
from helpers.tiny import tiny_config, tiny_target

CONTEXT = 512


class TinyPrograms:
    """A target, its draft in both forms, and the draft's thread."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.target = tiny_target()
        config = tiny_config(**changes)
        weights = random_weights(config)
        self.in_mlx = MlxDrafter(mlx_draft(config, weights), self.target)
        self.target.set_taps(config.target_layer_ids)
        write_draft(folder, config, weights)
        self.runtime = ane.CpuRuntime(threads=1)
        narrow, wide = (self.runtime.load(folder, precision="fp16", width=width, context=CONTEXT) for width in (16, 64))
        self.drafter = AneDrafter(folder, [*narrow, *wide[2:]], self.target, self.in_mlx.draft.selector)
        self.thread = DraftThread()
        self.outcomes = Outcomes()

    def ane(self, session: Session, sampler: Sampler) -> AneSource:
        return AneSource(session, self.drafter, sampler)

    def mirror(self, session: Session, sampler: Sampler) -> MirrorSource:
        return MirrorSource(session, self.drafter, sampler, self.thread, self.outcomes, Budget.flat(self.drafter.width))

    def expect(self, right: int) -> None:
        """Let verifications seem to have accepted so many tokens, the draft's next choice being right then."""
        self.outcomes = Outcomes()
        self.outcomes._right = [1.0 if position < right else 0.0 for position in range(MAX_PROPOSALS)]
        self.outcomes._alternatives = [1.0, *[0.0] * (ALTERNATIVES - 1)]


class ScriptedSampler:
    """The target's sampler, with a draft that is right as often as a test wants.

    `right(position)` says how many tokens behind the anchor at `position` are right, `thought_of(position)` whether the
    draft's next choice is the right one where its first is wrong.
    """

    def __init__(
        self,
        sampler: Sampler,
        truth: Sequence[int],
        prompt_length: int,
        right: Callable[[int], int],
        thought_of: Callable[[int], bool],
    ) -> None:
        self._sampler = sampler
        self._truth = truth
        self._prompt_length = prompt_length
        self._right = right
        self._thought_of = thought_of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    def choices_in_turn(self, said: Said, position: int, others: int) -> tuple[mx.array, mx.array, mx.array]:
        """See `Sampler`."""
        rows, anchor = len(said), position - 1
        known = position - self._prompt_length
        block = [*self._truth[known : known + rows], *[0] * rows][:rows]
        right, thought_of = self._right(anchor), self._thought_of(anchor)
        tokens = [token if row < right else token ^ 1 for row, token in enumerate(block)]
        next_ones = [
            [token if thought_of else token ^ 2, *(token ^ bit for bit in (4, 8, 16))][:others] for token in block
        ]
        return mx.array(tokens, dtype=mx.uint32), mx.array(next_ones, dtype=mx.uint32), mx.full(rows, 0.5)
