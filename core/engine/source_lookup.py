"""Prompt lookup: when the last tokens stand earlier in prompt or answer, propose what followed them there.

No model is needed and it costs next to nothing, so it serves any target. It wins where an answer repeats its prompt:
edits of code, quotes, summaries. (Saxena, "Prompt Lookup Decoding", 2023.)
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from core.engine.session import Session
from core.engine.sources import Drafted, KnownProposals, Proposals, Source
from core.protocol import Mode

LEAST_MATCH = 3
LONGEST_MATCH = 8
"""Tokens that must agree, and as many as are compared."""
_MOST_CANDIDATES = 32
"""Earlier places that are compared at most, the newest first."""


class RepeatIndex:
    """A text that grows, and where its last tokens stood before. A token costs one entry, a look-up a bounded time."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._newest: dict[tuple[int, ...], int] = {}
        """By `LEAST_MATCH` tokens: the newest position after them that has a token already."""
        self._older: list[int] = []
        """By position: the next older one after the same tokens; 0 where there is none."""

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
            self._tokens.append(token)

    def continuation(self, rows: int) -> list[int]:
        """`rows` tokens that followed the longest repeat of the text's end, the newest of equals; or none.

        Where the repeat reaches the text's end, its own continuation goes on: a period is repeated.
        """
        if (start := self._best()) == 0:
            return []
        period = len(self._tokens) - start
        return [self._tokens[start + row % period] for row in range(rows)]

    def _best(self) -> int:
        """The position after the longest earlier stand of the last tokens; 0 where there is none."""
        candidate = self._newest.get(tuple(self._tokens[-LEAST_MATCH:]), 0)
        best, longest = 0, LEAST_MATCH - 1
        for _ in range(_MOST_CANDIDATES):
            if candidate == 0 or longest == LONGEST_MATCH:
                break
            if (match := self._match(candidate)) > longest:
                best, longest = candidate, match
            candidate = self._older[candidate]
        return best

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
        self._session = session
        self._index = RepeatIndex()
        self._proposals: Proposals | None = None

    def start(self, anchor: int, rows: int) -> None:
        """See `Source`."""
        # The anchor of the step before is committed by now, so what is missing ends with this one.
        committed = self._session.tokens
        self._index.extend([*committed[len(self._index) :], anchor])
        tokens = self._index.continuation(rows)
        drafted = Drafted(tokens, time.perf_counter(), ())
        self._proposals = KnownProposals(drafted) if tokens else None

    def collect(self) -> Proposals | None:
        """See `Source`."""
        proposals, self._proposals = self._proposals, None
        return proposals
