"""A draft at work beside the MLX draft of the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
import numpy as np

import ane
from core.engine.drafter_mlx import ContextView, DFlashDraft
from core.formats.draft_config import DraftConfig
from helpers.packaged_draft import MlxTwin, relative_error
from helpers.random_drafts import Weights, mlx_draft, write_draft

Taps = Sequence[Any]


class SomePositions:
    """What one layer's block sees of an MLX cache: some positions only, and within the block what a mask allows."""

    def __init__(self, cache: Any, positions: Any, seen: Any, kept: Any) -> None:
        """`positions` [n] of the block, `seen` [n, n] within it, `kept` the context's positions in any order."""
        self.position = mx.array(positions)
        self._keys, self._values = (part[:, :, mx.array(kept)] for part in (cache.keys, cache.values))
        context = np.ones((len(positions), len(kept)), bool)
        self._mask = mx.array(np.concatenate([context, seen], axis=1))

    def extend(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array, mx.array | None]:
        """The block's rows are blocks of one row each, so that each has a position of its own."""
        joined = (
            mx.concatenate([context, block.transpose(2, 1, 0, 3)], axis=2)
            for context, block in ((self._keys, keys), (self._values, values))
        )
        rows = keys.shape[0]
        wide_keys, wide_values = (mx.broadcast_to(part, (rows, *part.shape[1:])) for part in joined)
        return wide_keys, wide_values, self._mask[:, None, None]


class SideBySide:
    """One draft folder in both, fed with the same features."""

    def __init__(self, folder: Path, draft: DFlashDraft, **options: Any) -> None:
        programs = ane.CpuRuntime(threads=2).load(folder, **options)
        self.running = ane.Draft(folder, programs)
        self.twin = MlxTwin(draft)
        self.config = draft.config

    def ingest(self, taps: Taps) -> None:
        self.running.ingest(taps)
        self.twin.ingest(taps)

    def run(self, block: Any, positions: Sequence[int] | None = None, mask: Any = None) -> Any:
        """[n, hidden] rows of the running draft; the block stands behind the context unless told otherwise."""
        hidden = np.full(block.shape, np.nan, np.float32)
        first = self.running.length
        self.running.run(block, positions or range(first, first + len(block)), hidden, mask=mask)
        return hidden

    def entering(self, layer: int, rows: int) -> Any:
        """[n, hidden]: what entered a layer in the last run."""
        found = np.full((rows, self.config.hidden_size), np.nan, np.float32)
        self.running.rows(layer, found)
        return found

    def layer_errors(self, block: Any) -> list[float]:
        """By layer: the relative error of what it adds, of a block behind the context.

        Every layer of the MLX draft gets what entered the running draft's, so that each is judged alone.
        """
        hidden = self.run(block)
        errors = []
        for layer, (module, view) in enumerate(
            zip(self.twin.draft.layers, self.twin.draft.views(self.twin.caches), strict=True)
        ):
            before = self.entering(layer, len(block))
            after = np.array(module(mx.array(before)[None], self.twin.draft.rope, view)[0])
            if layer + 1 < len(self.twin.draft.layers):
                errors.append(relative_error(self.entering(layer + 1, len(block)) - before, after - before))
            else:
                # The last program ends with the norm, which shows what the layer added only by its direction.
                errors.append(relative_error(hidden, np.array(self.twin.draft.norm(mx.array(after)))))
        return errors

    def expected(self, block: Any, positions: Any, seen: Any, kept: Any) -> Any:
        """[n, hidden] rows of the MLX draft, of any block over some positions of the context (full layers)."""
        views: list[ContextView] = [SomePositions(cache, positions, seen, kept) for cache in self.twin.caches]
        return np.array(self.twin.draft(mx.array(block)[:, None], views)[:, 0])


def random_pair(folder: Path, config: DraftConfig, weights: Weights, **options: Any) -> SideBySide:
    """A random draft; fp16, 16 columns and 512 positions of context unless `options` say otherwise."""
    precision: Literal["fp16"] = "fp16"
    options = {"precision": precision, "width": 16, "context": 512, **options}
    return SideBySide(write_draft(folder / "draft", config, weights), mlx_draft(config, weights), **options)


def random_rows(config: DraftConfig, count: int, seed: int = 0, size: float = 1.0) -> Any:
    """[count, hidden] of this size."""
    drawn = np.random.default_rng([seed, count]).standard_normal((count, config.hidden_size))
    return (drawn * size).astype(np.float32)


def random_taps(config: DraftConfig, count: int, seed: int = 0, size: float = 1.0) -> list[Any]:
    """[count, hidden] a tap."""
    return [random_rows(config, count, seed * 100 + tap, size) for tap in range(len(config.target_layer_ids))]
