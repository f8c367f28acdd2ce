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
from typing import cast

import mlx.core as mx

from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.sources import Proposals, Source
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
    draft_busy: tuple[float, float] | None
    target_busy: tuple[float, float]
    rollback_ms: float
    host_ms: float
    context_used: int
    finish: FinishReason | None


@dataclass
class _Pass:
    """A queued verification pass."""

    proposals: Proposals | None
    choices: mx.array
    taps: tuple[mx.array, ...]
    queued_s: float


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
        while True:
            ahead = loop.look_ahead(queued)
            step = loop.settle(queued, cancelled)
            if step.finish is None:
                queued = ahead or loop.next_pass()
            yield step
            if step.finish is not None:
                return
            if loop.emitted % _CLEAR_CACHE_TOKENS < len(step.tokens):
                mx.clear_cache()
    finally:
        session.abort()


class _Loop:
    """The state between two steps of one answer."""

    def __init__(self, session: Session, anchor: int, source: Source, sampler: Sampler, limits: Limits) -> None:
        self._session = session
        self._source = source
        self._sampler = sampler
        self._limits = limits
        self._width = min(limits.width, source.block_size)
        room = session.target.context_length - session.length - 1
        self._max_tokens = min(limits.max_tokens, room)
        self._full: FinishReason = "length" if limits.max_tokens <= room else "context"
        self._anchor = anchor
        self._free_s = time.perf_counter()
        self.emitted = 0

    def first_pass(self) -> _Pass:
        """One row, as in plain decoding, so that the first token is the same in every mode."""
        return self._queue_pass(_tokens([self._anchor]), None, 0)

    def look_ahead(self, queued: _Pass) -> _Pass | None:
        """Queue the pass after `queued` unseen, where that gives exactly one token and is not the last."""
        if self._width > 1 or self.emitted + 1 >= self._max_tokens:
            return None
        return self._queue_pass(queued.choices, None, 1)

    def next_pass(self) -> _Pass:
        """Queue the next draft, and right behind it the pass that verifies it."""
        proposals = None
        rows = min(self._width, self._max_tokens - self.emitted) - 1
        if rows > 0:
            self._source.start(self._anchor, rows)
            proposals = self._source.collect()
        anchor = _tokens([self._anchor])
        return self._queue_pass(mx.concatenate([anchor, proposals.tokens]) if proposals else anchor, proposals, 0)

    def settle(self, queued: _Pass, cancelled: Callable[[], bool]) -> DecodeStep:
        """Wait for a pass, commit what was accepted, and say how the step went."""
        proposals, choices, draft_busy, target_busy, host_ms = _wait(queued, self._free_s)
        self._free_s = target_busy[1]
        tokens, accepted = _accept(proposals, choices, self._limits.eos_ids)
        began_s = time.perf_counter()
        self._session.commit([self._anchor, *tokens[:-1]], queued.taps)
        rollback_ms = (time.perf_counter() - began_s) * 1e3
        self._sampler.forget_before(self._session.length)
        self._anchor = tokens[-1]
        self.emitted += len(tokens)
        return DecodeStep(
            tokens=tuple(tokens),
            proposals=tuple(proposals),
            accepted=accepted,
            mode=self._source.mode if proposals else "plain",
            draft_busy=draft_busy,
            target_busy=target_busy,
            rollback_ms=rollback_ms,
            host_ms=host_ms,
            context_used=self._session.length,
            finish=self._finish(cancelled),
        )

    def _queue_pass(self, inputs: mx.array, proposals: Proposals | None, uncommitted: int) -> _Pass:
        """Queue a pass over `inputs`, which stand `uncommitted` positions behind the committed ones."""
        position = self._session.length + uncommitted + 1
        forward = self._session.forward(inputs)
        choices = self._sampler.choose(forward.logits, position)
        mx.async_eval(choices, *forward.taps)
        return _Pass(proposals, choices, forward.taps, time.perf_counter())

    def _finish(self, cancelled: Callable[[], bool]) -> FinishReason | None:
        if self._anchor in self._limits.eos_ids:
            return "stop"
        if self.emitted >= self._max_tokens:
            return self._full
        return "cancelled" if cancelled() else None


def _wait(
    queued: _Pass, free_s: float
) -> tuple[list[int], list[int], tuple[float, float] | None, tuple[float, float], float]:
    """Wait for a pass: its proposals, the target's choices, both busy spans, and the milliseconds without work.

    The device was free from `free_s` on. Work that was queued earlier began then.
    """
    proposals: list[int] = []
    draft_busy = None
    idle_s = 0.0
    if queued.proposals is not None:
        proposals = _token_list(queued.proposals.tokens)
        draft_busy = (max(queued.proposals.queued_s, free_s), time.perf_counter())
        idle_s += draft_busy[0] - free_s
        free_s = draft_busy[1]
    choices = _token_list(queued.choices)
    target_busy = (max(queued.queued_s, free_s), time.perf_counter())
    idle_s += target_busy[0] - free_s
    return proposals, choices, draft_busy, target_busy, idle_s * 1e3


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


def _token_list(tokens: mx.array) -> list[int]:
    """[n] tokens on the host; waits for them."""
    return cast(list[int], tokens.tolist())
