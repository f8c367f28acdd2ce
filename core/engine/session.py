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
_MARK_ROWS = 16
"""So far before the prompt's end lies the point to go back to: the next prompt often differs in what opens the answer
(a thinking block that history leaves out)."""


class Session:
    """Tokens 0..length-1 are in the target's cache, and their tap rows in the draft's context.

    The last token of a conversation so far is never in the cache: it is the anchor of the next pass.
    """

    def __init__(self, target: Target, drafter: Drafter | None) -> None:
        self.target = target
        self.drafter = drafter
        self.context = DraftContext(drafter.config.num_hidden_layers) if drafter else None
        self.tokens: list[int] = []
        self._transaction = Transaction(target.make_cache(), target.layers)

    @property
    def length(self) -> int:
        """Committed positions."""
        return self._transaction.length

    def forward(self, tokens: mx.array) -> Forward:
        """Queue a pass over `tokens` ([n]) behind everything queued before. Commit or abort it later.

        Raises `UnsupportedCache` where the target could not forget a part of the pass.
        """
        return self._forward(tokens, whole=False)

    def _forward(self, tokens: mx.array, whole: bool) -> Forward:
        with self._transaction.begin(tokens.shape[0], whole):
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

    def trim_to(self, length: int) -> int:
        """Forget committed positions from `length` on. Returns how many stay.

        Recurrent states, and sliding windows after a long answer, have a way back to a point near the prompt's end
        only, or to nothing: then fewer than `length` positions stay.
        """
        kept = self._transaction.cut(length)
        del self.tokens[kept:]
        if self.context is not None:
            self.context.trim_to(kept)
        return kept

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

        What the prompt shares with the committed tokens is reused, as far as `trim_to` has a way back. The last prompt
        token is left to be its own one-row pass, as in plain decoding, so that every mode computes the same numbers.

        Raises `PromptTooLong`, and `Cancelled` between chunks.
        """
        if len(prompt) >= self.target.context_length:
            raise PromptTooLong(
                f"The conversation has {len(prompt):,} tokens; this model reads {self.target.context_length:,}.",
                "Start a new chat, shorten the message, or raise the limit in the settings where one is set.",
            )
        end = len(prompt) - 1
        shared = zip(self.tokens, prompt[:end], strict=False)
        reused = self.trim_to(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], shared)))
        marked = max(end - _MARK_ROWS, 0) if self._transaction.needs_marks else 0
        yield reused, reused
        while self.length < end:
            if cancelled():
                raise Cancelled("Stopped while reading the prompt.")
            stop = min(self.length + PREFILL_CHUNK_ROWS, marked if self.length < marked else end)
            chunk = list(prompt[self.length : stop])
            forward = self._forward(mx.array(chunk, dtype=mx.uint32), whole=True)
            # The logits are never evaluated: only the caches and taps of these rows are needed.
            mx.eval([cache.state for cache in self._transaction.caches], forward.taps)
            self.commit(chunk, forward.taps)
            if self.length == marked:
                self._transaction.mark()
            mx.clear_cache()
            yield self.length, reused

    def read(self, prompt: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        """`prefill` for callers that do not show how far it is. Raises as it does."""
        for _ in self.prefill(prompt, cancelled):
            pass
