"""The figures of an answer or a chat, worked out from the engine's events. No widgets, no Qt."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from app.language import tr
from app.pairs.mode_selector import why_missing
from app.stats.step_record import AnswerRecord
from app.stats.text_kind import TextKind, TextKinds
from app.stats.totals import Comparison, Position, Totals
from core.chats import Figures as SavedFigures
from core.protocol import Done, Heartbeat, Loaded, Mode, ModeChanged, Step

Verdict = Literal["faster", "equal", "slower"]
Scope = Literal["answer", "chat"]

RATE_WINDOW_S = 1.5
MEANINGFUL_S = 1.0
"""A speed-up over less time than this says nothing."""
EQUAL_WITHIN = 0.05
MOST_CHANGES = 50
_LEAST_DIAL = 10.0
_IDLE_STEPS = 24
"""So many of the last passes are looked at to see whether speculation is at work at all."""
_IDLE_LEAST = 8
_IDLE_SHARE = 0.25


@dataclass(frozen=True)
class Change:
    """A change of mode within an answer."""

    at_s: float
    """Since the first token."""
    mode: Mode
    reason: str
    failure: bool


@dataclass(frozen=True)
class Figures:
    """What the statistics show now; None where there is nothing to show."""

    scope: Scope = "answer"
    answers: int = 0
    """That have ended, of the chat."""
    saved: bool = False
    """Whether they are those of a kept answer: nothing is known of its single steps."""
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
    positions: tuple[Position, ...] = ()
    """Acceptance by position in the block."""
    kinds: tuple[tuple[TextKind, float], ...] = ()
    """Tokens per step by kind of text."""
    draft_ms: float | None = None
    """Mean per step."""
    verify_ms: float | None = None
    """Mean per step."""
    other_ms: float | None = None
    """Mean per step: rollback, and host time without device work."""
    time_to_first_token_s: float | None = None
    context_used: int | None = None
    context_length: int | None = None
    programs_context: int = 0
    """Tokens that the draft's programs see of the context; 0 without programs."""
    memory_bytes: int | None = None
    free_bytes: int | None = None
    """Of the machine's memory."""
    modes: tuple[tuple[Mode, float], ...] = ()
    """How the answer was decoded: the share of its steps in each mode, the greatest first."""
    mode_reason: str = ""
    """Why the mode last changed by choice."""
    changes: tuple[Change, ...] = ()
    """Of this answer, the oldest first."""
    speed_up: float | None = None
    """Speed over the measured plain speed; None before it means something."""
    plain_s: float | None = None
    """What plain decoding would have taken; None where that is not known."""
    took_s: float | None = None
    """What was taken for the same tokens."""
    inactive: str = ""
    """Why no draft is at work though the mode would have one; empty where one is."""


class FiguresModel:
    """Collects events and gives `figures()`. Times of the caller's clock are in seconds."""

    def __init__(self) -> None:
        self._loaded: Loaded | None = None
        self._beat: Heartbeat | None = None
        self._top = _LEAST_DIAL
        self._asked: Mode = "plain"
        self._saved: SavedFigures | None = None
        self.reset()

    # ------------------------------------------------------------ what happens

    def reset(self) -> None:
        """A new conversation: nothing is known of an answer."""
        self._ended = True
        self._chat = Totals()
        self._clear(now_s=0.0)
        self._context_used: int | None = None

    def open_chat(self, saved: Iterable[SavedFigures]) -> None:
        """Another chat is shown; these are the figures of its answers so far."""
        self.reset()
        for each in saved:
            self._chat = self._chat.plus(Totals.of_saved(each))

    def show_saved(self, saved: SavedFigures | None) -> None:
        """Show a kept answer until the next one begins; None goes back to the last answer."""
        self._saved = saved

    def begin(self, now_s: float, asked: Mode = "auto") -> None:
        """An answer has been asked for in the mode `asked`."""
        if not self._ended:  # it broke off
            self._end(None)
        self._ended = False
        self._asked = asked
        self._clear(now_s)

    def _clear(self, now_s: float) -> None:
        self._saved = None
        self._begun_s = now_s
        self._first_token_s: float | None = None
        self._rate_points: deque[tuple[float, int]] = deque()
        self._drafted: deque[bool] = deque(maxlen=_IDLE_STEPS)
        self._totals = Totals()
        self._kinds = TextKinds()
        self._changes: deque[Change] = deque(maxlen=MOST_CHANGES)
        self._done: Done | None = None
        self.record = AnswerRecord()
        """The steps of the answer under way, or of the last one."""

    def loaded(self, loaded: Loaded | None, now_s: float) -> None:
        """The pair is ready (or gone): the wait for the first token begins only now."""
        self._loaded = loaded
        self._begun_s = now_s
        if loaded is not None:
            self._top = dial_top(2 * loaded.plain_tokens_per_second)

    def memory(self, beat: Heartbeat | None) -> None:
        """What memory the engine process takes and the machine has left; None once the process has ended."""
        self._beat = beat

    def step(self, step: Step, now_s: float) -> None:
        """A step of the answer."""
        if self._first_token_s is None:
            self._first_token_s = now_s - self._begun_s
        self._totals.add(step, self._kinds.of(step))
        self.record.add(step)
        if step.elapsed_s > 0:
            self._drafted.append(step.proposed > 0)
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
        at_s = self._rate_points[-1][0] if self._rate_points else 0.0
        self._changes.append(Change(at_s, change.mode, change.reason, change.cause == "failure"))

    def done(self, done: Done) -> None:
        """The answer has ended."""
        self._done = done
        self._first_token_s = done.time_to_first_token_s
        self._end(done)

    def _end(self, done: Done | None) -> None:
        self._ended = True
        if self._totals.passes or done is not None:
            self._totals.end(done)
            self._chat = self._chat.plus(self._totals)

    # ------------------------------------------------------------ what is known

    def figures(self, scope: Scope = "answer") -> Figures:
        """The figures as they stand, of the answer or of the whole chat."""
        loaded, beat = self._loaded, self._beat
        engine = Figures(
            scope=scope,
            answers=self._chat.answers,
            plain_tokens_per_second=(loaded.plain_tokens_per_second or None) if loaded else None,
            dial_top=self._top,
            context_used=self._context_used,
            context_length=loaded.context_length if loaded else None,
            programs_context=loaded.programs_context if loaded else 0,
            memory_bytes=beat.rss_bytes if beat else None,
            free_bytes=beat.free_bytes if beat else None,
            changes=tuple(self._changes),
            inactive=self._inactive(),
        )
        if scope == "chat":
            totals = self._chat if self._ended else self._chat.plus(self._totals)
            return _with_totals(engine, totals, _rate(totals), totals.comparison)
        if self._saved is not None:
            return _with_saved(engine, self._saved)
        return replace(
            _with_totals(engine, self._totals, self._speed(), self._comparison()),
            time_to_first_token_s=self._first_token_s,
            mode_reason=next((each.reason for each in reversed(self._changes) if not each.failure), ""),
        )

    def _speed(self) -> float | None:
        if self._done is not None:
            return self._done.tokens_per_second or None
        points = self._rate_points
        if len(points) < 2 or points[-1][0] <= points[0][0]:
            return None
        return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])

    def _comparison(self) -> Comparison | None:
        if self._done is not None or not self._totals.proposed:
            return self._totals.comparison
        plain = self._loaded.plain_tokens_per_second if self._loaded else 0.0
        elapsed_s, tokens = self._rate_points[-1]
        if not plain or elapsed_s < MEANINGFUL_S:
            return None
        plain_s = (tokens - 1) / plain
        return Comparison(plain_s / elapsed_s, plain_s, elapsed_s)

    def _inactive(self) -> str:
        drafted = self._drafted
        idle = len(drafted) >= _IDLE_LEAST and sum(drafted) <= _IDLE_SHARE * len(drafted)
        if self._asked == "plain" or not idle or self._loaded is None:
            return ""
        if reason := why_missing(self._asked, self._loaded):
            return reason
        if not self._loaded.block_size:
            return tr("This pair has no draft.")
        latest = self._changes[-1] if self._changes else None
        if latest is not None and latest.mode == "plain":
            return latest.reason
        return tr("By what was measured, no draft is expected to be faster than plain decoding here.")


def _with_totals(known: Figures, totals: Totals, speed: float | None, comparison: Comparison | None) -> Figures:
    timed = totals.timed_passes
    return replace(
        known,
        tokens_per_second=speed,
        acceptance=totals.accepted / totals.proposed if totals.proposed else None,
        tokens_per_step=totals.tokens / totals.passes if totals.passes and totals.proposed else None,
        width=(totals.width or None) if totals.proposed else None,
        positions=totals.positions,
        kinds=totals.kinds,
        draft_ms=totals.draft_ms / timed if timed else None,
        verify_ms=totals.verify_ms / timed if timed else None,
        other_ms=totals.other_ms / timed if timed else None,
        modes=totals.mode_shares,
        speed_up=comparison.speed_up if comparison else None,
        plain_s=comparison.plain_s if comparison else None,
        took_s=comparison.took_s if comparison else None,
    )


def _with_saved(known: Figures, saved: SavedFigures) -> Figures:
    """The figures of a kept answer. The plain speed is that of its time, not of the pair that is loaded now."""
    totals = Totals.of_saved(saved)
    plain = 1e3 / saved.plain_ms_per_token if saved.plain_ms_per_token else None
    return replace(
        _with_totals(known, totals, saved.tokens_per_second or None, totals.comparison),
        saved=True,
        changes=(),
        inactive="",
        plain_tokens_per_second=plain,
        dial_top=max(known.dial_top, dial_top(1.2 * max(saved.tokens_per_second, plain or 0.0))),
        time_to_first_token_s=saved.time_to_first_token_s or None,
        context_used=(saved.prompt_tokens + saved.tokens) or None,
        modes=((saved.mode, 1.0),) if saved.steps else (),
    )


def _rate(totals: Totals) -> float | None:
    """Tokens a second over whole answers; None before there is one."""
    return totals.tokens / totals.decode_s if totals.tokens and totals.decode_s else None


def dial_top(value: float) -> float:
    """The least of 10, 20, 50, 100, 200 ... that is not below `value`."""
    if value <= _LEAST_DIAL:
        return _LEAST_DIAL
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


def verdict(speed_up: float) -> Verdict:
    """Whether speculation helps, with a band in which the two count as equal."""
    if abs(speed_up - 1) <= EQUAL_WITHIN:
        return "equal"
    return "faster" if speed_up > 1 else "slower"
