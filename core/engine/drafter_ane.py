"""The drafter whose draft runs as Core ML programs: on the Neural Engine on a Mac, elsewhere on the processor.

The programs compute in half precision and keep keys and values of their own. Embedding and LM head run in MLX, on the
target's device.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
import numpy.typing as npt

import ane
from core.engine.context import DraftContext
from core.engine.drafter import embed, head, masked_block
from core.engine.target import Target
from core.formats.draft_config import DraftConfig, read_draft_config

Rows = npt.NDArray[np.float32]
"""[n, hidden]."""


class AneDrafter:
    """Proposes blocks with a draft's loaded programs."""

    def __init__(self, folder: Path, programs: Sequence[ane.Program], target: Target) -> None:
        """The draft in `folder`, whose taps `target` has on.

        Raises `ane.AneError` for programs of another draft; and as `read_draft_config`.
        """
        self.config: DraftConfig = read_draft_config(folder)
        self.width = ane.Draft(folder, programs).width
        """Columns that the programs have at most."""
        self.widths = tuple(sorted({program.inputs["x"][-1] for program in programs if "x" in program.inputs}))
        """Columns that programs have: a block takes those of the narrowest that holds it."""
        self._folder = folder
        self.programs = programs
        self._target = target

    @property
    def block_size(self) -> int:
        """Rows of a block: the anchor and its proposals."""
        return self.config.block_size

    def ingest(self, context: DraftContext) -> None:
        """Turn the context's queued tap rows into K/V; waits."""
        running = self.running(context)
        if context.pending_rows:
            rows = context.hand_to_running()
            try:
                running.ingest(host_rows(rows))
            except ane.AneError:
                context.take_back(rows)
                raise

    def propose(self, anchor: mx.array, context: DraftContext, rows: int) -> mx.array:
        """See `Drafter`; waits for all but the LM head."""
        return self.logits(self.block(anchor, context)[:rows])

    def block(self, anchor: mx.array, context: DraftContext) -> Rows:
        """What follows `anchor` ([1] token, at position context.length), as rows for `logits`; waits."""
        (embedded,) = host_rows([self.embed(masked_block(anchor, self.config))])
        self.ingest(context)
        hidden = np.empty_like(embedded)
        self.running(context).run(embedded, range(context.length, context.length + len(embedded)), hidden)
        return hidden[1:]

    def embed(self, tokens: mx.array) -> mx.array:
        """[n, hidden]: what the draft reads of [n] tokens; lazily."""
        return embed(tokens, self._target, self.config)

    def logits(self, rows: Rows) -> mx.array:
        """[n, vocabulary]; lazily."""
        return head(mx.array(rows).astype(self._target.dtype), self._target, self.config)

    def running(self, context: DraftContext) -> ane.Draft:
        """The context's draft, up to date with what other drafters have ingested."""
        if context.running is None:
            context.running = ane.Draft(self._folder, self.programs)
        context.level_running()
        return context.running


def host_rows(arrays: Sequence[mx.array]) -> list[Rows]:
    """Arrays in single precision, for programs to read; waits."""
    single = [array.astype(mx.float32) for array in arrays]
    mx.eval(single)
    return [np.asarray(array) for array in single]
