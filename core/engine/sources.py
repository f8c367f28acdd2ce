"""Where proposals come from. The decode loop is the same for every source."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from core.engine.drafter_mlx import MlxDrafter
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.protocol import Mode


@dataclass(frozen=True)
class Proposals:
    """A draft's tokens for the positions after the anchor, perhaps still being computed."""

    tokens: mx.array
    """[n] tokens, n >= 1."""
    queued_s: float
    """`time.perf_counter()` when the draft's work was queued."""


class Source(Protocol):
    """Supplies proposals, one block at a time: `start` begins the work, `collect` hands it over."""

    mode: Mode
    block_size: int
    """Rows of a block (anchor and proposals); 1 for a source that never proposes."""

    def start(self, anchor: int, rows: int) -> None:
        """Begin to draft `rows` >= 1 tokens after `anchor`, the token after everything committed."""
        ...

    def collect(self) -> Proposals | None:
        """The proposals begun last, or None where there are none for this step."""
        ...


class PlainSource:
    """Never proposes: every pass is one row, and the next can be queued before the last is known."""

    mode: Mode = "plain"
    block_size = 1

    def start(self, anchor: int, rows: int) -> None:
        """Never called with rows: a block of one row has no proposals."""
        raise AssertionError(f"plain decoding was asked for {rows} proposals after {anchor}")

    def collect(self) -> Proposals | None:
        """Nothing, always."""
        return None


class SerialSource:
    """Drafts on the target's own device, after the pass whose features the draft reads."""

    mode: Mode = "gpu"

    def __init__(self, session: Session, drafter: MlxDrafter, sampler: Sampler) -> None:
        self.block_size = drafter.block_size
        self._session = session
        self._drafter = drafter
        self._sampler = sampler
        self._proposals: Proposals | None = None

    def start(self, anchor: int, rows: int) -> None:
        """See `Source`."""
        context = self._session.context
        assert context is not None
        logits = self._drafter.propose(mx.array([anchor], dtype=mx.uint32), context, rows)
        # The draft draws with the noise of the positions it proposes for: the noise the target will use there.
        tokens = self._sampler.choose(logits, context.length + 1)
        mx.async_eval(tokens)
        self._proposals = Proposals(tokens, time.perf_counter())

    def collect(self) -> Proposals | None:
        """See `Source`."""
        proposals, self._proposals = self._proposals, None
        return proposals
