"""Where proposals come from. The decode loop is the same for every source."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, cast

import mlx.core as mx

from core.engine.drafter import Drafter
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.spans import Span
from core.protocol import Mode


@dataclass(frozen=True)
class Drafted:
    """Proposals as the host knows them, and what was done for them."""

    tokens: list[int]
    known_s: float
    """When they were known."""
    draft_busy: tuple[Span, ...]
    """When the draft's device was at work."""
    target_busy: tuple[Span, ...] = ()
    """When the target's device was: on the LM head, where the draft runs elsewhere."""
    branch: Literal["hit", "miss"] | None = None
    """Whether the block had been drafted beside the verification before it; None where nothing was guessed."""
    branches: int = 0
    """Outcomes of that verification that had been drafted for."""


class Proposals(ABC):
    """A draft's tokens for the positions after the anchor, perhaps still being computed."""

    tokens: mx.array
    """[n], n >= 1."""

    @abstractmethod
    def wait(self, free_s: float) -> Drafted:
        """Wait for them; the target's device was free from `free_s` on."""


class QueuedProposals(Proposals):
    """Computed on the target's device, behind what was queued there before."""

    def __init__(self, tokens: mx.array, began_s: float) -> None:
        """`began_s` is `time.perf_counter()` when the draft's work was handed to the device."""
        self.tokens = tokens
        self._began_s = began_s
        self._known: tuple[list[int], float] | None = None

    def wait(self, free_s: float) -> Drafted:
        """See `Proposals`."""
        if self._known is None:
            self._known = token_list(self.tokens), time.perf_counter()
        tokens, known_s = self._known
        return Drafted(tokens, known_s, ((max(self._began_s, free_s), known_s),))


class KnownProposals(Proposals):
    """Known already."""

    def __init__(self, drafted: Drafted) -> None:
        self.tokens = mx.array(drafted.tokens, dtype=mx.uint32)
        self._drafted = drafted

    def wait(self, free_s: float) -> Drafted:  # noqa: ARG002
        """See `Proposals`."""
        return self._drafted


def token_list(tokens: mx.array) -> list[int]:
    """[n] tokens on the host; waits for them."""
    return cast(list[int], tokens.tolist())


@dataclass(frozen=True)
class Settled:
    """How a step went."""

    proposed: int
    accepted: int
    took_ms: float
    """Since the end of the step before."""
    branch: Literal["hit", "miss"] | None
    tokens: tuple[int, ...]
    """What it gave. All but the last are committed; the last is the anchor of the next pass."""


class Source(ABC):
    """Supplies proposals, one block at a time: `start` begins the work, `collect` hands it over."""

    mode: Mode
    """May change from step to step."""
    block_size: int
    """Rows of a block (anchor and proposals); 1 for a source that never proposes."""

    @abstractmethod
    def start(self, anchor: int, rows: int) -> None:
        """Begin to draft `rows` >= 1 tokens after `anchor`, the token after everything committed."""

    @abstractmethod
    def collect(self) -> Proposals | None:
        """The proposals begun last, or None where there are none for this step."""

    def verifying(self) -> None:  # noqa: B027 - most have nothing to do then
        """The pass that verifies the proposals collected last is about to begin: work beside it may begin too."""

    def needs_no_outcome(self) -> bool:
        """Whether the pass after the one under way has no proposals, whatever that comes to: it can be queued now.

        Asked once a pass without proposals.
        """
        return False

    def settled(self, step: Settled) -> None:  # noqa: B027
        """The step under way is over, and what it gave is committed but for the last token."""

    def close(self) -> None:  # noqa: B027
        """No more proposals are wanted. Waits for work that is under way; may be called at any time, and again."""


class PlainSource(Source):
    """Never proposes: every pass is one row, and the next can be queued before the last is known."""

    mode: Mode = "plain"
    block_size = 1

    def start(self, anchor: int, rows: int) -> None:
        """Never called with rows: a block of one row has no proposals."""
        raise AssertionError(f"plain decoding was asked for {rows} proposals after {anchor}")

    def needs_no_outcome(self) -> bool:
        """See `Source`: never are there proposals."""
        return True

    def collect(self) -> Proposals | None:
        """Nothing, always."""
        return None


class SerialSource(Source):
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
        said = self._drafter.propose(mx.array([anchor], dtype=mx.uint32), context, rows)
        # The draft draws with the noise of the positions it proposes for: the noise the target will use there.
        tokens = self._sampler.choose_in_turn(said, context.length + 1)
        self._proposals = QueuedProposals(tokens, time.perf_counter())
        mx.async_eval(tokens)

    def collect(self) -> Proposals | None:
        """See `Source`."""
        proposals, self._proposals = self._proposals, None
        return proposals
