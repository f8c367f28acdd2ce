"""One conversation's committed state: the target's cache, the draft's context, and the tokens both stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

import mlx.core as mx

from core.engine.cache_copies import EndState, join_rows, slice_rows
from core.engine.context import MAX_PENDING_ROWS, DraftContext
from core.engine.drafter import Drafter
from core.engine.prefix_store import Found, PrefixStore
from core.engine.rollback import Transaction
from core.engine.target import Forward, Target
from core.errors import Cancelled, PromptTooLong

PREFILL_CHUNK_ROWS = 512
_MARK_ROWS = 16
"""So far before the prompt's end lies the point to go back to: the next prompt often differs in what opens the answer
(a thinking block that history leaves out)."""

_END_EVERY_ROWS = 2048
"""While a prompt is read, the state is held so often, where a target can go back to such points only: one takes tens of
megabytes."""


class Session:
    """Tokens 0..length-1 are in the target's cache, and their tap rows in the draft's context.

    The last token of a conversation so far is never in the cache: it is the anchor of the next pass.
    """

    def __init__(self, target: Target, drafter: Drafter | None, prefix_bytes: int = 0) -> None:
        """`prefix_bytes`: how much may be held of conversations that another one has taken the place of."""
        self.target = target
        self.drafter = drafter
        self.context = DraftContext(drafter.config.num_hidden_layers) if drafter else None
        self.tokens: list[int] = []
        self._transaction = Transaction(target.make_cache(), target.layers)
        self._prefixes = PrefixStore(prefix_bytes, self._transaction.needs_marks) if prefix_bytes else None
        self._prompt_rows = 0
        """Of the committed positions, those that came from a prompt."""

    @property
    def length(self) -> int:
        """Committed positions."""
        return self._transaction.length

    @property
    def held_bytes(self) -> int:
        """What is held of other conversations."""
        return self._prefixes.nbytes if self._prefixes else 0

    @property
    def holds_ends(self) -> bool:
        """Whether prompts share only what ends where the target's state is held: at the `shared` of a prefill, say."""
        return self._prefixes is not None and self._transaction.needs_marks

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
        self._prompt_rows = min(self._prompt_rows, kept)
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

    def prefill(
        self, prompt: Sequence[int], cancelled: Callable[[], bool], shared: int = 0
    ) -> Iterator[tuple[int, int]]:
        """Commit all of `prompt` but its last token; yields (positions done, of which reused) before and after chunks.

        What the prompt shares with the committed tokens, or with any conversation that is still held, is reused. The
        last prompt token is left to be its own one-row pass, as in plain decoding, so that every mode computes the same
        numbers. `shared`: so many first tokens may begin other conversations too; see `holds_ends`.

        Raises `PromptTooLong`, and `Cancelled` between chunks.
        """
        self._check_length(prompt)
        reused = self._reuse(prompt[: len(prompt) - 1])
        yield reused, reused
        for done in self._read(prompt, cancelled, shared):
            yield done, reused

    def read(self, prompt: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        """`prefill` of the whole prompt, whatever is known. Raises as it does."""
        self._check_length(prompt)
        self.trim_to(0)
        for _ in self._read(prompt, cancelled, 0):
            pass

    def _check_length(self, prompt: Sequence[int]) -> None:
        if len(prompt) >= self.target.context_length:
            raise PromptTooLong(
                f"The conversation has {len(prompt):,} tokens; this model reads {self.target.context_length:,}.",
                "Start a new chat, shorten the message, or raise the limit in the settings where one is set.",
            )

    def _read(self, prompt: Sequence[int], cancelled: Callable[[], bool], shared: int) -> Iterator[int]:
        """Commit all of `prompt` but its last token, behind what is committed; yields how much is, after each chunk."""
        end = len(prompt) - 1
        marked = max(end - _MARK_ROWS, 0) if self._transaction.needs_marks else 0
        held = {shared, *range(_END_EVERY_ROWS, end, _END_EVERY_ROWS)} if self.holds_ends else set()
        stops = sorted({marked, end, *held})
        self._prompt_rows = self.length
        while self.length < end:
            if cancelled():
                raise Cancelled("Stopped while reading the prompt.")
            stop = next(stop for stop in stops if stop > self.length)
            chunk = list(prompt[self.length : min(self.length + PREFILL_CHUNK_ROWS, stop)])
            forward = self._forward(mx.array(chunk, dtype=mx.uint32), whole=True)
            # The logits are never evaluated: only the caches and taps of these rows are needed.
            mx.eval([cache.state for cache in self._transaction.caches], forward.taps)
            self.commit(chunk, forward.taps)
            self._prompt_rows = self.length
            if self.length == marked:
                self._transaction.mark()
            if self.length in held:
                self._hold(self.length, self._transaction.copy_end)
            mx.clear_cache()
            yield self.length

    def _reuse(self, prompt: Sequence[int]) -> int:
        """Commit what is known of the beginning of `prompt`, and nothing else. Returns how much that is."""
        known = _common(self.tokens, prompt)
        if self._prefixes is None:
            return self.trim_to(known)
        found = self._prefixes.find(prompt)
        if known < self.length:
            # What follows the last prompt is of less worth: an answer written anew, thinking that history leaves out.
            self._hold_all(spare=known >= self._prompt_rows - _MARK_ROWS)
        if found.length > self._transaction.reach(known):
            self._restore(prompt, found)
        else:
            self.trim_to(known)
        if self.holds_ends:
            self._hold(self.length, self._transaction.copy_end)  # an edit of the message that follows goes back to here
        return self.length

    def _restore(self, prompt: Sequence[int], found: Found) -> None:
        rows = join_rows(found.segments)
        of_target = len(self._transaction.rows())
        self._transaction.restore(found.length, rows[:of_target], found.end)
        known = _common(self.tokens, prompt[: found.length])
        self.tokens = list(prompt[: found.length])
        if self.context is not None:
            self.context.restore(found.length, rows[of_target:], known)

    def _hold_all(self, spare: bool) -> None:
        """Let the store hold everything that is committed."""
        if self.holds_ends and (mark := self._transaction.copy_mark()) is not None:
            self._hold(mark[0], lambda: mark[1], spare)
        self._hold(self.length, self._transaction.copy_end if self.holds_ends else None, spare)

    def _hold(self, length: int, copy_end: Callable[[], EndState] | None, spare: bool = False) -> None:
        """Let the store hold the first `length` committed positions; `spare` as `PrefixStore.insert` has it."""
        assert self._prefixes is not None
        if length == 0:
            return
        if self.context is not None and self.drafter is not None:
            self.drafter.ingest(self.context)  # the store has keys and values only, and those of MLX
        rows = self._transaction.rows() + (self.context.rows() if self.context else ())
        self._prefixes.insert(self.tokens[:length], lambda first, end: slice_rows(rows, first, end), copy_end, spare)


def _common(tokens: Sequence[int], others: Sequence[int]) -> int:
    """How many first tokens are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(tokens, others, strict=False)))
