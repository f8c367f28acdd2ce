"""Where proposals come from. The decode loop is the same for every source."""

from __future__ import annotations

import time
from typing import Protocol, cast

import mlx.core as mx

from core.engine.drafter import Drafter
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.protocol import Mode


class Proposals:
    """A draft's tokens for the positions after the anchor, perhaps still being computed."""

    def __init__(self, tokens: mx.array, began_s: float) -> None:
        """`tokens` [n], n >= 1; `began_s` is `time.perf_counter()` when the draft's work was handed to the device."""
        self.tokens = tokens
        self.began_s = began_s
        self._result: tuple[list[int], float] | None = None

    def wait(self) -> tuple[list[int], float]:
        """The tokens, and when they were first known to the host."""
        if self._result is None:
            self._result = token_list(self.tokens), time.perf_counter()
        return self._result


def token_list(tokens: mx.array) -> list[int]:
    """[n] tokens on the host; waits for them."""
    return cast(list[int], tokens.tolist())


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

    def __init__(self, session: Session, drafter: Drafter, sampler: Sampler) -> None:
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
        tokens = self._sampler.choose_in_turn(logits, context.length + 1)
        self._proposals = Proposals(tokens, time.perf_counter())
        mx.async_eval(tokens)

    def collect(self) -> Proposals | None:
        """See `Source`."""
        proposals, self._proposals = self._proposals, None
        return proposals
