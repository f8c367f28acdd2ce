"""Sources whose draft runs as programs: after the verification (`ane`), or beside it (`mirror`).

Branch-complete drafting (mirror): while the target verifies, the draft prepares the block that follows each likely
outcome. It knows the features of positions below the anchor only; a block for an outcome that does not come true is
dropped, and never fed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx
import numpy as np

import ane
from core.engine.branches import ALTERNATIVES, Branch, Budget, Outcomes, possible_branches
from core.engine.context import DraftContext
from core.engine.draft_thread import DRAFT_TIMEOUT_S, DraftThread, Job
from core.engine.drafter_ane import AneDrafter, Rows, host_rows
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.sources import Drafted, KnownProposals, Proposals, Source, token_list
from core.engine.spans import Span
from core.errors import DraftStopped
from core.protocol import Mode


class _SaidProposals(Proposals):
    """What the LM head says of a drafted block: computed on the target's device while the host builds the pass."""

    def __init__(self, tokens: mx.array, drafted: Span) -> None:
        self.tokens = tokens
        self._drafted = drafted
        self._known: Drafted | None = None

    def wait(self, free_s: float) -> Drafted:  # noqa: ARG002
        """See `Proposals`."""
        if self._known is None:
            tokens, known_s = token_list(self.tokens), time.perf_counter()
            self._known = Drafted(tokens, known_s, (self._drafted,), ((self._drafted[1], known_s),))
        return self._known


class AneSource(Source):
    """Drafts with programs, after the pass whose features the draft reads. Raises `ane.AneError` where they fail."""

    mode: Mode = "ane"

    def __init__(self, session: Session, drafter: AneDrafter, sampler: Sampler) -> None:
        assert session.context is not None
        self.block_size = drafter.block_size
        self._context = session.context
        self._drafter = drafter
        self._sampler = sampler
        self._proposals: Proposals | None = None

    def start(self, anchor: int, rows: int) -> None:
        """See `Source`; waits."""
        began_s = time.perf_counter()
        hidden = self._drafter.block(mx.array([anchor], dtype=mx.uint32), self._context)
        drafted_s = time.perf_counter()
        said = self._drafter.say(hidden[:rows], mx.array([anchor], dtype=mx.uint32))
        self._proposals = _SaidProposals(
            self._sampler.choose_in_turn(said, self._context.length + 1), (began_s, drafted_s)
        )
        mx.async_eval(self._proposals.tokens)

    def collect(self) -> Proposals | None:
        """See `Source`."""
        proposals, self._proposals = self._proposals, None
        return proposals


@dataclass(frozen=True)
class _Block:
    """Rows of a draft behind an anchor, and how they came about."""

    rows: Rows
    """[m, hidden], of the positions behind the anchor."""
    draft_busy: tuple[Span, ...]
    branch: Literal["hit", "miss"] | None
    branches: int


@dataclass(frozen=True)
class _Choices:
    """What the draft says behind an anchor: more than is verified, so that outcomes can be guessed."""

    position: int
    """Of the anchor."""
    tokens: list[int]
    others: list[list[int]]
    """By position: what the draft would have said next."""
    certainties: list[float]
    embedded: Rows
    """Of the anchor, tokens, others, and the mask."""
    taps: list[Rows]
    """Of the rows that wait to be ingested."""
    verified: int
    """How many tokens are verified."""
    tail: Rows
    """[m, hidden], of the positions behind `tokens`: still in place where all that is verified proves right, and the
    token behind it too."""


@dataclass(frozen=True)
class _Ahead:
    """Blocks that are drafted beside a verification."""

    job: Job
    rows: tuple[mx.array, ...]
    """What the job ingests."""
    hidden: Rows
    first_columns: dict[tuple[int, int], tuple[int, int]]
    """By accepted proposals and the target's token: the branch's first mask column, and how many there are."""


class MirrorSource(Source):
    """Drafts for likely outcomes while the target verifies; a miss is drafted again, as `AneSource` does.

    Raises `ane.AneError` and `DraftStopped` where the programs fail; the session's context is sound then.
    """

    mode: Mode = "mirror"

    def __init__(
        self,
        session: Session,
        drafter: AneDrafter,
        sampler: Sampler,
        thread: DraftThread,
        outcomes: Outcomes,
        budget: Budget,
        share_processor: Callable[[bool], None] = lambda _share: None,
    ) -> None:
        """`share_processor` is told whether the draft runs beside the target from now on."""
        assert session.context is not None
        self.block_size = drafter.block_size
        self._session = session
        self._context: DraftContext = session.context
        self._drafter = drafter
        self._sampler = sampler
        self._thread = thread
        self._outcomes = outcomes
        self._budget = budget
        self._share_processor = share_processor
        self._proposals: Proposals | None = None
        self._choices: _Choices | None = None
        self._ahead: _Ahead | None = None

    def start(self, anchor: int, rows: int) -> None:
        """See `Source`; waits."""
        position = self._context.length
        self._learn(anchor, position)
        try:
            block = self._block(anchor, position, rows)
        except (ane.AneError, DraftStopped):
            self._choices = None
            raise
        began_s = time.perf_counter()
        # One more than is verified: it is what comes behind a block that is accepted whole.
        said = self._drafter.say(block.rows[: rows + 1], mx.array([anchor], dtype=mx.uint32))
        tokens, others, certainties = self._sampler.choices_in_turn(said, position + 1, ALTERNATIVES)
        edges = [mx.array([token], dtype=tokens.dtype) for token in (anchor, self._drafter.config.mask_token_id)]
        embedded = self._drafter.embed(mx.concatenate([edges[0], tokens, others.reshape(-1), edges[1]]))
        mx.async_eval(tokens, others, certainties)
        host, *taps = host_rows([embedded, *self._context.pending()])
        ranked: list[list[int]] = others.tolist()  # type: ignore[assignment]
        certain: list[float] = certainties.tolist()  # type: ignore[assignment]
        known = token_list(tokens)
        tail = block.rows[len(known) :]
        self._choices = _Choices(position, known, ranked, certain, host, taps, min(rows, len(known)), tail)
        known_s = time.perf_counter()
        self._proposals = KnownProposals(
            Drafted(known[:rows], known_s, block.draft_busy, ((began_s, known_s),), block.branch, block.branches)
        )

    def collect(self) -> Proposals | None:
        """See `Source`."""
        proposals, self._proposals = self._proposals, None
        return proposals

    def verifying(self) -> None:
        """See `Source`: hands the likely outcomes to the draft's thread."""
        choices = self._choices
        assert choices is not None
        possible = possible_branches(
            choices.tokens, choices.others, self._outcomes, choices.certainties, choices.verified, self.block_size
        )
        branches = self._budget.choose(possible)
        if branches:
            self._ahead = self._begin(choices, branches)

    def close(self) -> None:
        """See `Source`."""
        self._choices = None
        if self._ahead is not None:
            self._join()

    def _begin(self, choices: _Choices, branches: list[Branch]) -> _Ahead:
        layout = _Layout(choices)
        places = {(branch.accepted, branch.token): layout.add(branch) for branch in branches}
        running = self._drafter.running(self._context)
        rows = self._context.hand_to_running()
        self._share_processor(True)
        embedded = choices.embedded[layout.sources]
        hidden = np.empty_like(embedded)
        owners = np.array(layout.owners)
        mask = owners[:, None] == owners[None]

        def work() -> None:
            if choices.taps:
                running.ingest(choices.taps)
            running.run(embedded, layout.positions, hidden, mask=mask)

        return _Ahead(self._thread.begin(work), rows, hidden, places)

    def _learn(self, anchor: int, position: int) -> None:
        """See what the last verification came to."""
        if (last := self._choices) is not None:
            accepted = position - last.position - 1
            others = last.others[accepted] if accepted < last.verified else []
            rank = others.index(anchor) if anchor in others else None
            self._outcomes.observe(last.certainties, last.verified, accepted, rank)

    def _block(self, anchor: int, position: int, rows: int) -> _Block:
        """The rows behind the anchor: those of its branch, of the last block's tail, or of a block drafted now."""
        busy: tuple[Span, ...] = ()
        branches = 0
        if (last := self._choices) is not None:
            branches += len(last.tail) > 0
            if (ahead := self._ahead) is not None:
                branches += len(ahead.first_columns)
                busy = (self._join(),)
                if place := ahead.first_columns.get((position - last.position - 1, anchor)):
                    first, count = place
                    return _Block(ahead.hidden[first : first + count], busy, "hit", branches)
            if 2 * len(tail := self._tail(last, anchor, position)) >= max(rows, 2):
                return _Block(tail, busy, "hit", branches)
        began_s = time.perf_counter()
        drafted = self._drafter.block(mx.array([anchor], dtype=mx.uint32), self._context)
        busy = (*busy, (began_s, time.perf_counter()))
        return _Block(drafted, busy, "miss" if branches else None, branches)

    @staticmethod
    def _tail(last: _Choices, anchor: int, position: int) -> Rows:
        """What the last block says behind the anchor; no rows unless it is what that block went on with."""
        whole = position - last.position - 1 == last.verified < len(last.tokens)
        return last.tail if whole and last.tokens[last.verified] == anchor else last.tail[:0]

    def _join(self) -> Span:
        """Wait for the draft's thread; where it failed, the context is as if it had not begun."""
        ahead, self._ahead = self._ahead, None
        assert ahead is not None
        try:
            busy = ahead.job.wait(DRAFT_TIMEOUT_S)
            self._share_processor(False)
            return busy
        except DraftStopped:
            self._session.rebuild_context()
            raise
        except ane.AneError:
            self._context.take_back(ahead.rows)
            raise


class _Layout:
    """Columns of branches side by side: where each gets its embedding, where it stands, and whose it is."""

    def __init__(self, choices: _Choices) -> None:
        self._choices = choices
        self.sources: list[int] = []
        self.positions: list[int] = []
        self.owners: list[int] = []

    def add(self, branch: Branch) -> tuple[int, int]:
        """The branch's first mask column, and how many there are."""
        choices, count = self._choices, len(self._choices.tokens)
        said = branch.accepted + 1
        if branch.accepted < choices.verified:
            said = 1 + count + branch.accepted * ALTERNATIVES + choices.others[branch.accepted].index(branch.token)
        sources = [*range(branch.accepted + 1), said, *[len(choices.embedded) - 1] * branch.masks]
        first = len(self.sources) + branch.accepted + 2
        self.owners += [self.owners[-1] + 1 if self.owners else 0] * len(sources)
        self.sources += sources
        self.positions += range(choices.position, choices.position + len(sources))
        return first, branch.masks
