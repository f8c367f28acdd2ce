"""One conversation's committed state: the target's cache, the draft's context, and the tokens both stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

import mlx.core as mx

from core.engine.context import MAX_PENDING_ROWS, DraftContext
from core.engine.drafter import Drafter
from core.engine.rollback import Transaction
from core.engine.target import Forward, Target
from core.errors import Cancelled, PromptTooLong

PREFILL_CHUNK_ROWS = 512


class Session:
    """Tokens 0..length-1 are in the target's cache, and their tap rows in the draft's context.

    The last token of a conversation so far is never in the cache: it is the anchor of the next pass.
    """

    def __init__(self, target: Target, drafter: Drafter | None) -> None:
        self.target = target
        self.drafter = drafter
        self.context = DraftContext(drafter.config.num_hidden_layers) if drafter else None
        self.tokens: list[int] = []
        self._transaction = Transaction(target.make_cache())

    @property
    def length(self) -> int:
        """Committed positions."""
        return self._transaction.length

    def forward(self, tokens: mx.array) -> Forward:
        """Queue a pass over `tokens` ([n]) behind everything queued before. Commit or abort it later."""
        self._transaction.begin(tokens.shape[0])
        return self.target.forward(tokens, self._transaction.caches)

    def commit(self, tokens: Sequence[int], taps: Sequence[mx.array]) -> None:
        """Keep the first len(tokens) rows of the oldest queued pass; these are their tokens, `taps` its taps."""
        rows = len(tokens)
        self._transaction.commit(rows)
        self.tokens.extend(tokens)
        if self.context is not None and self.drafter is not None:
            self.context.queue([tap[:rows] for tap in taps])
            if self.context.pending_rows > MAX_PENDING_ROWS:
                self.drafter.ingest(self.context)
                mx.async_eval([cache.state for cache in self.context.caches if cache.offset])

    def abort(self) -> None:
        """Forget all queued passes."""
        self._transaction.abort()

    def trim_to(self, length: int) -> None:
        """Forget committed positions from `length` on."""
        self._transaction.trim_to(length)
        del self.tokens[length:]
        if self.context is not None:
            self.context.trim_to(length)

    def rebuild_context(self) -> None:
        """Queue the draft's rows anew from where its K/V end: the target reads the text once more, beside its cache."""
        assert self.context is not None
        first = self.context.lose_running()
        caches = self.target.make_cache()
        for start in range(0, self.length, PREFILL_CHUNK_ROWS):
            chunk = self.tokens[start : min(start + PREFILL_CHUNK_ROWS, self.length)]
            taps = self.target.forward(mx.array(chunk, dtype=mx.uint32), caches).taps
            mx.eval([cache.state for cache in caches], taps)
            if start + len(chunk) > first:
                self.context.queue([tap[max(first - start, 0) :] for tap in taps])

    def prefill(self, prompt: Sequence[int], cancelled: Callable[[], bool]) -> Iterator[tuple[int, int]]:
        """Commit all of `prompt` but its last token; yields (positions done, of which reused) before and after chunks.

        What the prompt shares with the committed tokens is reused. The last prompt token is left to be its own
        one-row pass, as in plain decoding, so that every mode computes the same numbers.

        Raises `PromptTooLong`, and `Cancelled` between chunks.
        """
        if len(prompt) >= self.target.context_length:
            raise PromptTooLong(
                f"The conversation has {len(prompt):,} tokens; this model reads {self.target.context_length:,}.",
                "Start a new chat, or shorten the message.",
            )
        end = len(prompt) - 1
        shared = zip(self.tokens, prompt[:end], strict=False)
        reused = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], shared))
        self.trim_to(reused)
        yield reused, reused
        while self.length < end:
            if cancelled():
                raise Cancelled("Stopped while reading the prompt.")
            chunk = list(prompt[self.length : min(self.length + PREFILL_CHUNK_ROWS, end)])
            forward = self.forward(mx.array(chunk, dtype=mx.uint32))
            # The logits are never evaluated: only the caches and taps of these rows are needed.
            mx.eval([cache.state for cache in self._transaction.caches], forward.taps)
            self.commit(chunk, forward.taps)
            mx.clear_cache()
            yield self.length, reused
