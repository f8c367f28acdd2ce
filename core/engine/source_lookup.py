"""Prompt lookup: when the last tokens stand earlier in prompt or answer, propose what followed them there.

No model is needed and it costs next to nothing, so it serves any target. It wins where an answer repeats its prompt:
edits of code, quotes, summaries. (Saxena, "Prompt Lookup Decoding", 2023.)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from core.engine.session import Session
from core.engine.sources import Drafted, KnownProposals, Proposals, Settled, Source
from core.protocol import Mode

LOOKUP_ROWS = 16
"""Rows of a pass at most, where no draft's block says how many."""
LEAST_MATCH = 3
LONGEST_MATCH = 8
"""Tokens that must agree, and as many as are compared."""
_MOST_CANDIDATES = 32
"""Earlier places that are compared at most, the newest first."""


@dataclass(frozen=True)
class Repeat:
    """What followed the last tokens of a text where they stood before."""

    length: int
    """How many of the last tokens stood there: `LEAST_MATCH` to `LONGEST_MATCH`."""
    tokens: list[int]
    """What followed."""


class RepeatIndex:
    """A text that grows, and where its last tokens stood before. A token costs one entry, a look-up a bounded time."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._newest: dict[tuple[int, ...], int] = {}
        """By `LEAST_MATCH` tokens: the newest position after them that has a token already."""
        self._older: list[int] = []
        """By position: the next older one after the same tokens; 0 where there is none."""
        self._begun: set[tuple[int, ...]] = set()
        """Every `LEAST_MATCH` - 1 tokens that have another behind them."""

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """Append to the text."""
        for token in tokens:
            here = len(self._tokens)
            self._older.append(0)
            if here >= LEAST_MATCH:
                before = tuple(self._tokens[here - LEAST_MATCH :])
                self._older[here] = self._newest.get(before, 0)
                self._newest[before] = here
            if here >= LEAST_MATCH - 1:
                self._begun.add(tuple(self._tokens[here - LEAST_MATCH + 1 :]))
            self._tokens.append(token)

    def may_repeat(self) -> bool:
        """Whether there is a token with which the text's end would be a repeat."""
        return tuple(self._tokens[1 - LEAST_MATCH :]) in self._begun

    def repeat(self, rows: int) -> Repeat | None:
        """The longest repeat of the text's end, the newest of equals, and `rows` tokens that followed it.

        Where the repeat reaches the text's end, its own continuation goes on: a period is repeated.
        """
        start, length = self._best()
        if start == 0:
            return None
        period = len(self._tokens) - start
        return Repeat(length, [self._tokens[start + row % period] for row in range(rows)])

    def _best(self) -> tuple[int, int]:
        """The position after the longest earlier stand of the last tokens, and its length; zeros for none."""
        candidate = self._newest.get(tuple(self._tokens[-LEAST_MATCH:]), 0)
        best, longest = 0, 0
        for _ in range(_MOST_CANDIDATES):
            if candidate == 0 or longest == LONGEST_MATCH:
                break
            if (match := self._match(candidate)) > longest:
                best, longest = candidate, match
            candidate = self._older[candidate]
        return best, longest

    def _match(self, position: int) -> int:
        """How many tokens before `position` are those at the text's end."""
        tokens, match = self._tokens, LEAST_MATCH
        while match < min(LONGEST_MATCH, position) and tokens[position - 1 - match] == tokens[-1 - match]:
            match += 1
        return match


class LookupSource(Source):
    """Proposes repeats of the conversation; steps without one are plain."""

    mode: Mode = "lookup"

    def __init__(self, session: Session, block_size: int) -> None:
        self.block_size = block_size
        self.repeat: Repeat | None = None
        """Of the end of what is known, the anchor included."""
        self._session = session
        self._index = RepeatIndex()
        self._index.extend(session.tokens)
        self._proposals: Proposals | None = None

    def start(self, anchor: int, rows: int) -> None:  # noqa: ARG002 - `settled` was told it
        """See `Source`."""
        if self.repeat is not None:
            self._proposals = KnownProposals(Drafted(self.repeat.tokens[:rows], time.perf_counter(), ()))

    def collect(self) -> Proposals | None:
        """See `Source`."""
        proposals, self._proposals = self._proposals, None
        return proposals

    def needs_no_outcome(self) -> bool:
        """See `Source`: where no token would make the end a repeat."""
        return not self._index.may_repeat()

    def settled(self, step: Settled) -> None:
        """See `Source`."""
        # The anchor of the pass is committed by now; the index has it already, except before the first pass.
        committed = self._session.tokens
        self._index.extend([*committed[len(self._index) :], step.tokens[-1]])
        self.repeat = self._index.repeat(self.block_size - 1)
