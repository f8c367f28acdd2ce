"""The figures of an answer, worked out from the engine's events. No widgets, no Qt."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal

from core.protocol import Done, Loaded, Mode, ModeChanged, Step

Verdict = Literal["faster", "equal", "slower"]

RATE_WINDOW_S = 1.5
MEANINGFUL_S = 1.0
"""A speed-up over less time than this says nothing."""
MEANINGFUL_TOKENS = 8
EQUAL_WITHIN = 0.05
_LEAST_DIAL = 10.0


@dataclass(frozen=True)
class Figures:
    """What the statistics show now; None where there is nothing to show."""

    tokens_per_second: float | None = None
    """Over the last `RATE_WINDOW_S` while answering, over the whole answer once it has ended."""
    plain_tokens_per_second: float | None = None
    """Plain decoding as measured when the pair was loaded."""
    dial_top: float = _LEAST_DIAL
    """The end of the speed dial's scale, in tokens per second."""
    acceptance: float | None = None
    """Accepted over verified proposals, 0 to 1; None where nothing was proposed."""
    tokens_per_step: float | None = None
    """None in plain mode, where it is always 1."""
    width: int | None = None
    """The most tokens that a step of this width can give."""
    draft_ms: float | None = None
    """Mean per step."""
    verify_ms: float | None = None
    """Mean per step."""
    other_ms: float | None = None
    """Mean per step: rollback, and host time without device work."""
    time_to_first_token_s: float | None = None
    context_used: int | None = None
    context_length: int | None = None
    memory_bytes: int | None = None
    modes: tuple[tuple[Mode, float], ...] = ()
    """How the answer was decoded: the share of its steps in each mode, the greatest first."""
    mode_reason: str = ""
    """Why the mode last changed by choice."""
    speed_up: float | None = None
    """Speed over the measured plain speed; None before it means something."""


class FiguresModel:
    """Collects events and gives `figures()`. Times of the caller's clock are in seconds."""

    def __init__(self) -> None:
        self._loaded: Loaded | None = None
        self._memory_bytes: int | None = None
        self._top = _LEAST_DIAL
        self.reset()

    def reset(self) -> None:
        """A new conversation: nothing is known of an answer."""
        self.begin(now_s=0.0)
        self._context_used: int | None = None

    def begin(self, now_s: float) -> None:
        """An answer has been asked for."""
        self._begun_s = now_s
        self._first_token_s: float | None = None
        self._rate_points: deque[tuple[float, int]] = deque()
        self._totals = _Totals()
        self._mode_reason = ""
        self._done: Done | None = None

    def loaded(self, loaded: Loaded | None, now_s: float) -> None:
        """The pair is ready (or gone): the wait for the first token begins only now."""
        self._loaded = loaded
        self._begun_s = now_s
        if loaded is not None:
            self._top = dial_top(2 * loaded.plain_tokens_per_second)

    def memory(self, rss_bytes: int | None) -> None:
        """The engine process's resident memory; None once it has ended."""
        self._memory_bytes = rss_bytes

    def step(self, step: Step, now_s: float) -> None:
        """A step of the answer."""
        if self._first_token_s is None:
            self._first_token_s = now_s - self._begun_s
        self._totals.add(step)
        self._context_used = step.context_used
        points = self._rate_points
        points.append((step.elapsed_s, step.tokens_so_far))
        while len(points) > 2 and points[1][0] <= step.elapsed_s - RATE_WINDOW_S:
            points.popleft()
        speed = self._speed()
        if speed is not None and speed > self._top:
            self._top = dial_top(1.2 * speed)

    def mode_changed(self, change: ModeChanged) -> None:
        """The answer goes on in another mode."""
        self._mode_reason = change.reason

    def done(self, done: Done) -> None:
        """The answer has ended."""
        self._done = done
        self._first_token_s = done.time_to_first_token_s

    def figures(self) -> Figures:
        """The figures as they stand."""
        loaded, totals = self._loaded, self._totals
        passes = totals.passes
        return Figures(
            tokens_per_second=self._speed(),
            plain_tokens_per_second=(loaded.plain_tokens_per_second or None) if loaded else None,
            dial_top=self._top,
            acceptance=totals.accepted / totals.proposed if totals.proposed else None,
            tokens_per_step=totals.tokens / passes if passes and totals.proposed else None,
            width=totals.width if totals.proposed else None,
            draft_ms=totals.draft_ms / passes if passes else None,
            verify_ms=totals.verify_ms / passes if passes else None,
            other_ms=totals.other_ms / passes if passes else None,
            time_to_first_token_s=self._first_token_s,
            context_used=self._context_used,
            context_length=loaded.context_length if loaded else None,
            memory_bytes=self._memory_bytes,
            modes=totals.shares,
            mode_reason=self._mode_reason,
            speed_up=self._speed_up(),
        )

    def _speed(self) -> float | None:
        if self._done is not None:
            return self._done.tokens_per_second or None
        points = self._rate_points
        if len(points) < 2 or points[-1][0] <= points[0][0]:
            return None
        return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])

    def _speed_up(self) -> float | None:
        if not self._totals.proposed:
            return None
        if self._done is not None:
            compared = compare_with_plain(self._done)
            return compared.speed_up if compared else None
        plain = self._loaded.plain_tokens_per_second if self._loaded else 0.0
        elapsed_s, tokens = self._rate_points[-1]
        if not plain or elapsed_s < MEANINGFUL_S:
            return None
        return (tokens - 1) / elapsed_s / plain


@dataclass
class _Totals:
    """Sums over the passes of an answer; the first token comes from reading the prompt and is no pass."""

    passes: int = 0
    tokens: int = 0
    proposed: int = 0
    accepted: int = 0
    width: int = 0
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    other_ms: float = 0.0
    modes: Counter[Mode] = field(default_factory=Counter)

    @property
    def shares(self) -> tuple[tuple[Mode, float], ...]:
        """Of the passes, by mode; the greatest first."""
        return tuple((mode, count / self.passes) for mode, count in self.modes.most_common())

    def add(self, step: Step) -> None:
        if step.elapsed_s <= 0:
            return
        self.passes += 1
        self.modes[step.mode] += 1
        self.tokens += len(step.tokens)
        self.proposed += step.proposed
        self.accepted += step.accepted
        self.width = max(self.width, step.width)
        self.draft_ms += step.draft_ms
        self.verify_ms += step.verify_ms
        self.other_ms += step.rollback_ms + step.host_ms


def dial_top(value: float) -> float:
    """The least of 10, 20, 50, 100, 200 ... that is not below `value`."""
    if value <= _LEAST_DIAL:
        return _LEAST_DIAL
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


@dataclass(frozen=True)
class Comparison:
    """An answer against plain decoding of the same tokens."""

    speed_up: float
    plain_s: float
    took_s: float


def compare_with_plain(done: Done) -> Comparison | None:
    """How long plain decoding would have taken for the tokens after the first, at its measured time per token.

    The first token comes from reading the prompt, which is the same in both. None where plain decoding was not
    measured, where nothing was proposed in the answer, or where it is too short to say anything.
    """
    plain_s = done.plain_decode_s
    if not done.proposed or done.tokens < MEANINGFUL_TOKENS or plain_s <= 0 or done.decode_s <= 0:
        return None
    return Comparison(plain_s / done.decode_s, plain_s, done.decode_s)


def verdict(speed_up: float) -> Verdict:
    """Whether speculation helps, with a band in which the two count as equal."""
    if abs(speed_up - 1) <= EQUAL_WITHIN:
        return "equal"
    return "faster" if speed_up > 1 else "slower"
