"""A training run: conversations are written and trained on in turns, in a folder from which it can always go on.

The folder holds `run.json` (the settings), `corpus/` and `heldout.npz` (conversations), `checkpoints/`, `draft/` (the
draft so far, for any loader) and `log.jsonl`. Every number depends on the settings alone: a run that was interrupted
ends with the weights of one that was not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import mlx.core as mx
import msgspec
import numpy as np

from core.engine.drafter_mlx import DFlashDraft
from core.engine.target import Target
from core.errors import Cancelled
from core.training.acceptance import HeldOut
from core.training.checkpoint import State, newest_state, save_state, write_draft
from core.training.feed import Feed
from core.training.learner import Learner
from core.training.settings import Settings
from core.training.synthesis import Frame
from core.training.writer import Writer

_CHECKPOINT_S = 180.0
"""A kill loses at most this much work."""
_CACHE_BYTES = 2 << 30
"""Of freed buffers that MLX keeps: fresh pages cost time, and steps differ in shape."""


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the run stands, and what it does or has measured."""

    step: int
    steps: int
    doing: str
    loss: float | None = None
    """Mean over the steps since the last measurement."""
    tokens_per_step: float | None = None
    """Of the averaged draft on held-out conversations: accepted and one more."""
    by_position: tuple[float, ...] | None = None
    """The share of blocks that are right up to this position."""
    left_s: float | None = None


class TrainingRun:
    """A draft in training. One thread owns it."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        target: Target,
        frame: Frame,
        draft: DFlashDraft,
        writer: Writer | None = None,
    ) -> None:
        """Begin with `draft`, or go on from the newest checkpoint; a `writer` writes the shards.

        Raises `BadRequest` for the folder of another run, `UnreadableModel` for damaged files.
        """
        self._folder = folder
        self._settings = settings
        self._target = target
        self._feed = Feed(folder, settings, target, frame, writer)
        mx.set_cache_limit(_CACHE_BYTES)
        self._learner = Learner(draft, target, settings)
        state = newest_state(folder / "checkpoints")
        if state is not None:
            self._learner.restore(state.step, state.arrays)
            self._feed.shard, self._feed.used = state.shard, state.used

    @property
    def step(self) -> int:
        """Steps done."""
        return self._learner.step

    def train(self, stopped: Callable[[], bool] = lambda: False) -> Iterator[Progress]:
        """Train to the last step or until `stopped`; a checkpoint is written then, and every few minutes."""
        for progress in self._train(stopped):
            with (self._folder / "log.jsonl").open("ab") as log:
                log.write(msgspec.json.encode(progress) + b"\n")
            yield progress

    def _train(self, stopped: Callable[[], bool]) -> Iterator[Progress]:
        learner, settings = self._learner, self._settings
        yield self._progress("writing held-out conversations")
        held_out = HeldOut(self._feed.held_out(), self._target)
        if learner.step == 0:
            yield self._measured(held_out)
        yield self._progress("training")
        frequent = self._feed.frequent_tokens()
        saved_s = began_s = time.monotonic()
        first_step = learner.step
        losses: list[float] = []
        while learner.step < settings.steps and not stopped():
            try:
                lessons = self._feed.take(settings.conversations_a_step)
            except Cancelled:  # stopped while it waited for them
                break
            losses.append(learner.learn(lessons, frequent))
            if time.monotonic() - saved_s >= _CHECKPOINT_S:
                self.save()
                saved_s = time.monotonic()
            if learner.step % settings.measure_every == 0 or learner.step == settings.steps:
                pace_s = (time.monotonic() - began_s) / (learner.step - first_step)
                yield self._measured(held_out, float(np.mean(losses)), pace_s * (settings.steps - learner.step))
                losses = []
        self.save()
        yield self._progress("done" if learner.step == settings.steps else "stopped")

    def save(self) -> None:
        """Write a checkpoint, and the averaged draft for any loader."""
        learner, feed = self._learner, self._feed
        save_state(self._folder / "checkpoints", State(learner.step, feed.shard, feed.used, learner.arrays()))
        write_draft(self._folder / "draft", learner.draft.config, learner.averaged())
        feed.forget_before(feed.shard)

    def _progress(self, doing: str) -> Progress:
        return Progress(self._learner.step, self._settings.steps, doing)

    def _measured(self, held_out: HeldOut, loss: float | None = None, left_s: float | None = None) -> Progress:
        draft = DFlashDraft(self._learner.draft.config)
        draft.load_weights(list(self._learner.averaged().items()), strict=True)
        acceptance = held_out.measure(draft)
        return Progress(
            self._learner.step,
            self._settings.steps,
            "measured",
            loss,
            acceptance.tokens_per_step,
            acceptance.by_position,
            left_s,
        )
