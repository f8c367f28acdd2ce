"""Single passes of a draft over a random context, in MLX and by its programs, for benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache

import ane
from core.engine.draft_weights import build_draft
from core.engine.drafter_mlx import DFlashDraft
from core.formats.draft_config import DraftConfig, read_draft_config
from core.kernel_messages import Precision

Pass = Callable[[], None]


def read_draft(folder: Path) -> DFlashDraft:
    """The draft in `folder` in float32, without a target. Raises as `read_draft_config` and `build_draft` do."""
    return build_draft(folder, read_draft_config(folder), mx.float32)


def mlx_pass(draft: DFlashDraft, columns: int, context: int) -> Pass:
    """A block of so many rows over so many positions of context."""
    config = draft.config
    caches = [KVCache() for _ in draft.layers]
    for cache, (keys, values) in zip(caches, _context(config, context), strict=True):
        cache.update_and_fetch(mx.array(keys[None]), mx.array(values[None]))
    block = mx.array(_rows(columns, config.hidden_size))[None]
    mx.eval([cache.state for cache in caches], block)
    return lambda: mx.eval(draft(block, draft.views(caches)))


def load_programs(folder: Path, threads: int, precision: Precision, width: int, context: int) -> list[ane.Program]:
    """The programs of the draft in `folder`, on the processor."""
    return ane.CpuRuntime(threads).load(folder, precision=precision, width=width, context=context)


def program_pass(
    folder: Path, programs: Sequence[ane.Program], config: DraftConfig, columns: int, context: int
) -> Pass:
    """The same by the programs of the draft in `folder`."""
    running = ane.Draft(folder, programs)
    keys, values = zip(*_context(config, context), strict=True)
    running.append([part.swapaxes(1, 2) for part in keys], [part.swapaxes(1, 2) for part in values])
    block = _rows(columns, config.hidden_size)
    hidden = np.empty_like(block)
    positions = range(context, context + columns)
    return lambda: running.run(block, positions, hidden)


def layer_weights(draft: DFlashDraft) -> int:
    """Weights that every column of a block is multiplied with."""
    return sum(array.size for layer in draft.layers for _, array in tree_flatten(layer.parameters()) if array.ndim == 2)


def _rows(count: int, hidden: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(count).standard_normal((count, hidden)).astype(np.float32)


def _context(config: DraftConfig, positions: int) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
    """Keys and values by layer, [kv heads, positions, head dim] each."""
    random = np.random.default_rng(positions)
    shape = (config.num_key_value_heads, positions, config.head_dim)
    return [
        (random.standard_normal(shape).astype(np.float32), random.standard_normal(shape).astype(np.float32))
        for _ in range(config.num_hidden_layers)
    ]
