"""The drafter whose draft runs as Core ML programs: on the Neural Engine on a Mac, elsewhere on the processor.

The programs compute in half precision and keep keys and values of their own. Embedding, LM head and candidate selector
run in MLX, on the target's device.
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
from core.engine.selector import CandidateSelector, Said
from core.engine.target import Target
from core.formats.draft_config import DraftConfig, read_draft_config

Rows = npt.NDArray[np.float32]
"""[n, hidden]."""


class AneDrafter:
    """Proposes blocks with a draft's loaded programs."""

    def __init__(
        self,
        folder: Path,
        programs: Sequence[ane.Program],
        target: Target,
        selector: CandidateSelector | None = None,
    ) -> None:
        """The draft in `folder`, whose taps `target` has on; `selector` is the draft's, where it has one.

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
        assert (selector is None) == (self.config.selector_rank == 0)
        self._selector = selector

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

    def propose(self, anchor: mx.array, context: DraftContext, rows: int) -> Said:
        """See `Drafter`; waits for all but the LM head."""
        return self.say(self.block(anchor, context)[:rows], anchor)

    def block(self, anchor: mx.array, context: DraftContext) -> Rows:
        """What follows `anchor` ([1] token, at position context.length), as rows for `say`; waits."""
        (embedded,) = host_rows([self.embed(masked_block(anchor, self.config))])
        self.ingest(context)
        hidden = np.empty_like(embedded)
        self.running(context).run(embedded, range(context.length, context.length + len(embedded)), hidden)
        return hidden[1:]

    def embed(self, tokens: mx.array) -> mx.array:
        """[n, hidden]: what the draft reads of [n] tokens; lazily."""
        return embed(tokens, self._target, self.config)

    def say(self, rows: Rows, anchor: mx.array) -> Said:
        """What rows of the positions behind `anchor` ([1]) say of them; lazily."""
        logits = self.logits(rows)
        return logits if self._selector is None else self._selector.candidates(self._on_device(rows), logits, anchor)

    def logits(self, rows: Rows) -> mx.array:
        """[n, vocabulary]: what each row says on its own; lazily."""
        return head(self._on_device(rows), self._target, self.config)

    def _on_device(self, rows: Rows) -> mx.array:
        return mx.array(rows).astype(self._target.dtype)

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
