"""The drafter whose draft runs as Core ML programs: on the Neural Engine on a Mac, elsewhere on the processor.

The programs compute in half precision and keep keys and values of their own. The thread that calls waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np

import ane
from core.engine.context import DraftContext
from core.engine.draft_config import DraftConfig, read_draft_config
from core.engine.drafter import embed, head, masked_block
from core.engine.target import Target


class AneDrafter:
    """Proposes blocks with a draft's loaded programs. Embedding and LM head run in MLX, on the target's device."""

    def __init__(self, folder: Path, programs: Sequence[ane.Program], target: Target) -> None:
        """The draft in `folder`, whose taps `target` has on.

        Raises `ane.AneError` for programs of another draft; and as `read_draft_config`.
        """
        self.config: DraftConfig = read_draft_config(folder)
        self._folder = folder
        self._programs = programs
        self._target = target
        ane.Draft(folder, programs)

    @property
    def block_size(self) -> int:
        """Rows of a block: the anchor and its proposals."""
        return self.config.block_size

    def ingest(self, context: DraftContext) -> None:
        """Turn the context's queued tap rows into K/V; waits."""
        running = self._running(context)
        if context.pending_rows:
            taps = [tap.astype(mx.float32) for tap in context.take_pending()]
            mx.eval(taps)
            running.ingest([np.asarray(tap) for tap in taps])

    def propose(self, anchor: mx.array, context: DraftContext, rows: int) -> mx.array:
        """See `Drafter`; waits for all but the LM head."""
        embedded = embed(masked_block(anchor, self.config), self._target, self.config)
        block = np.asarray(embedded.astype(mx.float32))
        self.ingest(context)
        hidden = np.empty_like(block)
        running = self._running(context)
        running.run(block, range(context.length, context.length + len(block)), hidden)
        return head(mx.array(hidden[1 : rows + 1]).astype(embedded.dtype), self._target, self.config)

    def _running(self, context: DraftContext) -> ane.Draft:
        """The context's draft, up to date with what other drafters have ingested."""
        if context.running is None:
            context.running = ane.Draft(self._folder, self._programs)
        context.level_running()
        return context.running
