"""The decode loop: verify, accept, commit, emit. One loop for every source of proposals.

A step is one pass of the target over [anchor, proposals...]. Row i chooses the token after input i; proposals are
accepted as long as they equal the target's choices, and the first choice that differs (or the one after a block
accepted whole) ends the step: so every token is the target's own. The next draft and pass are queued before a step
is handed out, and the host waits for the device once a step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

from core.engine.device import on_cpu
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.sources import Drafted, Proposals, Settled, Source, token_list
from core.engine.spans import Span, covered_s, total_s
from core.protocol import FinishReason, Mode

_CLEAR_CACHE_TOKENS = 256


@dataclass(frozen=True)
class Limits:
    """When an answer ends by itself."""

    max_tokens: int
    eos_ids: frozenset[int]
    width: int
    """Rows of a pass at most (proposals + 1)."""


@dataclass(frozen=True)
class DecodeStep:
    """One step's tokens and times. Times are `time.perf_counter()` seconds, durations milliseconds."""

    tokens: tuple[int, ...]
    proposals: tuple[int, ...]
    accepted: int
    """How many of the proposals are among `tokens`; an end of sequence inside the block cuts it."""
    mode: Mode
    draft_busy: tuple[Span, ...]
    """When the draft's device worked for this step: also beside the verification before it."""
    target_busy: tuple[Span, ...]
    """When the target's device worked; the last span is the verification."""
    branch: Literal["hit", "miss"] | None
    """Whether the block had been drafted beside the verification before it; None where nothing was guessed."""
    branches: int
    """Outcomes of the verification before that had been drafted for."""
    rollback_ms: float
    host_ms: float
    """No device worked."""
    context_used: int
    finish: FinishReason | None

    @property
    def draft_ms(self) -> float:
        """How long the draft was at work; 0 where there was none."""
        return total_s(self.draft_busy) * 1e3

    @property
    def verify_ms(self) -> float:
        """How long the verification took."""
        return total_s(self.target_busy[-1:]) * 1e3

    @property
    def busy(self) -> tuple[Span, ...]:
        """When either device worked."""
        return self.draft_busy + self.target_busy

    @property
    def done_s(self) -> float:
        """When the tokens were known."""
        return self.target_busy[-1][1]


class _Pass:
    """A verification pass, built lazily; `submit` hands it to the device."""

    def __init__(self, proposals: Proposals | None, choices: mx.array, taps: tuple[mx.array, ...]) -> None:
        self.proposals = proposals
        self.choices = choices
        self.taps = taps
        self._began_s: float | None = None

    def submit(self) -> None:
        """Hand the pass to the device, once."""
        if self._began_s is None:
            self._began_s = time.perf_counter()
            mx.async_eval(self.choices, *self.taps)

    def wait(self, free_s: float) -> _Outcome:
        """Wait for the pass, which the target's device, free from `free_s` on, began no earlier."""
        assert self._began_s is not None
        drafted, ready_s = _NOTHING, free_s
        if self.proposals is not None:
            drafted = self.proposals.wait(free_s)
            ready_s = max(free_s, drafted.known_s)
        choices = token_list(self.choices)
        return _Outcome(drafted, choices, (max(self._began_s, ready_s), time.perf_counter()))


_NOTHING = Drafted([], 0.0, ())


@dataclass(frozen=True)
class _Outcome:
    """What a pass gave, and when it ran."""

    drafted: Drafted
    choices: list[int]
    verification: Span


def decode(
    session: Session,
    anchor: int,
    source: Source,
    sampler: Sampler,
    limits: Limits,
    cancelled: Callable[[], bool] = lambda: False,
) -> Generator[DecodeStep, None, None]:
    """Decode from `anchor`, the token after everything committed in `session`; the last step has `finish`.

    The first pass is one row, whatever the source. Closing the generator early is sound: queued passes are undone, and
    the session holds every token handed out but the last.
    """
    loop = _Loop(session, anchor, source, sampler, limits)
    try:
        queued = loop.first_pass()
        queued.submit()
        while True:
            ahead = loop.look_ahead(queued)
            step = loop.settle(queued, cancelled)
            if step.finish is None:
                queued = ahead or loop.next_pass()
                queued.submit()
            yield step
            if step.finish is not None:
                return
            if loop.emitted % _CLEAR_CACHE_TOKENS < len(step.tokens):
                mx.clear_cache()
    finally:
        source.close()
        session.abort()


class _Loop:
    """The state between two steps of one answer."""

    def __init__(self, session: Session, anchor: int, source: Source, sampler: Sampler, limits: Limits) -> None:
        self._session = session
        self._source = source
        self._sampler = sampler
        sampler.observe([*session.tokens, anchor])
        self._limits = limits
        self._width = min(limits.width, source.block_size)
        room = session.target.context_length - session.length - 1
        self._max_tokens = min(limits.max_tokens, room)
        self._full: FinishReason = "length" if limits.max_tokens <= room else "context"
        self._anchor = anchor
        self._queues_deeply = not on_cpu()
        self._free_s = time.perf_counter()
        self.emitted = 0

    def first_pass(self) -> _Pass:
        """One row, as in plain decoding, so that the first token is the same in every mode."""
        return self._build_pass(_tokens([self._anchor]), None, 0)

    def look_ahead(self, submitted: _Pass) -> _Pass | None:
        """Build the pass after `submitted` unseen, where that one gives exactly one token and is not the last."""
        if submitted.proposals is not None or self.emitted + 1 >= self._max_tokens:
            return None
        if self._width > 1 and not self._source.needs_no_outcome():
            return None
        ahead = self._build_pass(submitted.choices, None, 1)
        if self._queues_deeply:
            ahead.submit()
        return ahead

    def next_pass(self) -> _Pass:
        """Submit the next draft, and build the pass that verifies it."""
        proposals = None
        rows = min(self._width, self._max_tokens - self.emitted) - 1
        if rows > 0:
            self._source.start(self._anchor, rows)
            proposals = self._source.collect()
        anchor = _tokens([self._anchor])
        built = self._build_pass(mx.concatenate([anchor, proposals.tokens]) if proposals else anchor, proposals, 0)
        if proposals is not None and not self._queues_deeply:
            # Submitting the pass would block past the draft's end: its time could not be told.
            proposals.wait(self._free_s)
        if proposals is not None:
            self._source.verifying()
        return built

    def settle(self, queued: _Pass, cancelled: Callable[[], bool]) -> DecodeStep:
        """Wait for a pass, commit what was accepted, and say how the step went."""
        outcome = queued.wait(self._free_s)
        drafted, done_s = outcome.drafted, outcome.verification[1]
        target_busy = (*drafted.target_busy, outcome.verification)
        took_s = done_s - self._free_s
        idle_s = took_s - covered_s([*drafted.draft_busy, *target_busy], self._free_s, done_s)
        self._free_s = done_s
        tokens, accepted = _accept(drafted.tokens, outcome.choices, self._limits.eos_ids)
        began_s = time.perf_counter()
        self._session.commit([self._anchor, *tokens[:-1]], queued.taps)
        rollback_ms = (time.perf_counter() - began_s) * 1e3
        self._sampler.observe(tokens)
        self._sampler.forget_before(self._session.length)
        self._anchor = tokens[-1]
        self.emitted += len(tokens)
        self._source.settled(Settled(len(drafted.tokens), accepted, took_s * 1e3, drafted.branch, tuple(tokens)))
        return DecodeStep(
            tokens=tuple(tokens),
            proposals=tuple(drafted.tokens),
            accepted=accepted,
            mode=self._source.mode if drafted.tokens else "plain",
            draft_busy=drafted.draft_busy,
            target_busy=target_busy,
            branch=drafted.branch,
            branches=drafted.branches,
            rollback_ms=rollback_ms,
            host_ms=idle_s * 1e3,
            context_used=self._session.length,
            finish=self._finish(cancelled),
        )

    def _build_pass(self, inputs: mx.array, proposals: Proposals | None, uncommitted: int) -> _Pass:
        """A pass over `inputs`, which stand `uncommitted` positions behind the committed ones."""
        position = self._session.length + uncommitted + 1
        forward = self._session.forward(inputs)
        return _Pass(proposals, self._sampler.choose(forward.logits, position, inputs), forward.taps)

    def _finish(self, cancelled: Callable[[], bool]) -> FinishReason | None:
        if self._anchor in self._limits.eos_ids:
            return "stop"
        if self.emitted >= self._max_tokens:
            return self._full
        return "cancelled" if cancelled() else None


def _accept(proposals: list[int], choices: list[int], eos_ids: frozenset[int]) -> tuple[list[int], int]:
    """The tokens of a step and how many of them were proposed: the longest right prefix, then the target's choice."""
    accepted = 0
    while accepted < len(proposals) and proposals[accepted] == choices[accepted]:
        accepted += 1
    tokens = choices[: accepted + 1]
    for index, token in enumerate(tokens):
        if token in eos_ids:
            return tokens[: index + 1], min(accepted, index + 1)
    return tokens, accepted


def _tokens(ids: list[int]) -> mx.array:
    return mx.array(ids, dtype=mx.uint32)
