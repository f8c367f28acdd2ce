"""What both devices did in the steps of one answer, kept so that it can be drawn at any zoom. No Qt.

Bounded: of a long answer the newest `MOST_STEPS` steps are kept.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from core.protocol import BusySpan, Mode, Step

MOST_STEPS = 4096
_DROPPED_AT_ONCE = 512


class Work(IntEnum):
    """What a device did in a span."""

    VERIFY = 0
    """The target verified a block."""
    PROPOSE = 1
    """The target's device turned the draft's rows into proposals: the language-model head is the target's."""
    DRAFT = 2
    """The draft worked after the verification."""
    HIT = 3
    """The draft worked beside the verification, and the real outcome was among those it drafted for."""
    REDRAFT = 4
    """The draft worked anew, after its guesses had missed."""
    DISCARDED = 5
    """The draft worked beside the verification for outcomes none of which came true."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The figures of one step. Times are in seconds since the answer's first pass began."""

    number: int
    """1 is the first pass of the answer."""
    begin_s: float
    end_s: float
    mode: Mode
    proposed: int
    accepted: int
    tokens: int
    draft_ms: float
    verify_ms: float
    other_ms: float
    branch: Literal["hit", "miss"] | None
    branches: int


@dataclass(frozen=True, slots=True)
class WorkSpan:
    """A span of one device's work."""

    begin_s: float
    end_s: float
    work: Work
    step: int
    """Number of the step that it was done for."""


class Lane:
    """The spans of one device, in order of time."""

    def __init__(self, works: Sequence[Work]) -> None:
        """`works`: what this device may do."""
        self.works = tuple(works)
        self._begin = array("d")
        self._end = array("d")
        self._places = array("b")  # of its work among `works`
        self._step = array("l")
        # Busy time of each kind before span i: the share of any stretch comes from two look-ups.
        self._before: list[tuple[float, ...]] = []
        self._total = [0.0] * len(self.works)

    def __len__(self) -> int:
        return len(self._begin)

    def add(self, begin_s: float, end_s: float, work: Work, step: int) -> None:
        """A span that begins no earlier than the last one ended."""
        begin_s = max(begin_s, self._end[-1]) if self._end else begin_s
        place = self.works.index(work)
        self._begin.append(begin_s)
        self._end.append(max(begin_s, end_s))
        self._places.append(place)
        self._step.append(step)
        self._before.append(tuple(self._total))
        self._total[place] += max(0.0, end_s - begin_s)

    def forget_before(self, step: int) -> None:
        """Drop the spans of older steps."""
        count = bisect_left(self._step, step)
        del self._begin[:count], self._end[:count], self._places[:count], self._step[:count], self._before[:count]

    def between(self, begin_s: float, end_s: float) -> range:
        """Indices of the spans that reach into this stretch."""
        return range(bisect_right(self._end, begin_s), bisect_left(self._begin, end_s))

    def span(self, index: int) -> WorkSpan:
        """One of them."""
        return WorkSpan(self._begin[index], self._end[index], self.works[self._places[index]], self._step[index])

    def busy_until(self, time_s: float) -> tuple[float, ...]:
        """How long each of `works` had gone on by then; only differences mean something."""
        index = bisect_right(self._begin, time_s) - 1
        if index < 0:
            return self._before[0] if self._before else tuple(self._total)
        inside = min(time_s, self._end[index]) - self._begin[index]
        before = self._before[index]
        place = self._places[index]
        return (*before[:place], before[place] + inside, *before[place + 1 :])


class AnswerRecord:
    """The steps of one answer."""

    def __init__(self) -> None:
        self.target = Lane((Work.VERIFY, Work.PROPOSE))
        self.draft = Lane((Work.DRAFT, Work.HIT, Work.REDRAFT, Work.DISCARDED))
        self.steps: list[StepRecord] = []
        self.count = 0
        """Steps so far, forgotten ones included."""
        self.hits = 0
        self.misses = 0
        self.draft_s = 0.0
        self.beside_s = 0.0
        """How much of the draft's time lay beside the target's."""
        self.discarded_s = 0.0
        """How much of it was for outcomes that did not come true."""
        self._origin_s: float | None = None
        self._target_before: tuple[BusySpan, ...] = ()

    @property
    def overlap(self) -> float | None:
        """(busy time of both devices - time in which one was busy) / busy time of the draft; None without a draft."""
        return self.beside_s / self.draft_s if self.draft_s else None

    @property
    def hit_rate(self) -> float | None:
        """Of the steps whose outcome was guessed, the share that was guessed right; None where none was."""
        guessed = self.hits + self.misses
        return self.hits / guessed if guessed else None

    @property
    def begin_s(self) -> float:
        """Where the oldest kept step begins."""
        return self.steps[0].begin_s if self.steps else 0.0

    @property
    def end_s(self) -> float:
        """Where the newest step ends."""
        return self.steps[-1].end_s if self.steps else 0.0

    def add(self, step: Step) -> None:
        """The next step."""
        busy = (*step.target_busy, *step.draft_busy)
        if self._origin_s is None:
            self._origin_s = min((span.start_s for span in busy), default=0.0)
        self.count += 1
        origin_s = self._origin_s
        for at, span in enumerate(step.target_busy, 1):
            work = Work.VERIFY if at == len(step.target_busy) else Work.PROPOSE
            self.target.add(span.start_s - origin_s, span.end_s - origin_s, work, self.count)
        for at, span in enumerate(step.draft_busy, 1):
            work = _draft_work(step, last=at == len(step.draft_busy))
            self.draft.add(span.start_s - origin_s, span.end_s - origin_s, work, self.count)
            self.discarded_s += span.end_s - span.start_s if work is Work.DISCARDED else 0.0
        self._count_time(step)
        before_s = self.steps[-1].end_s if self.steps else 0.0
        end_s = step.target_busy[-1].end_s - origin_s if step.target_busy else before_s
        self.steps.append(
            StepRecord(
                self.count, before_s, max(end_s, before_s), step.mode, step.proposed, step.accepted, len(step.tokens),
                step.draft_ms, step.verify_ms, step.rollback_ms + step.host_ms, step.branch, step.branches,
            )
        )  # fmt: skip
        if len(self.steps) > MOST_STEPS:
            self._forget_oldest()

    def index_at(self, time_s: float) -> int:
        """Of the step under way then, among those kept; -1 before the first."""
        return bisect_right(self.steps, time_s, key=lambda step: step.begin_s) - 1

    def step_at(self, time_s: float) -> StepRecord | None:
        """The step under way then; None before the first and after the last."""
        index = self.index_at(time_s)
        return self.steps[index] if index >= 0 and time_s <= self.end_s else None

    def step_number(self, number: int) -> StepRecord | None:
        """The step of this number; None where it is not kept."""
        index = number - self.steps[0].number if self.steps else -1
        return self.steps[index] if 0 <= index < len(self.steps) else None

    def _count_time(self, step: Step) -> None:
        self.hits += step.branch == "hit"
        self.misses += step.branch == "miss"
        # What was drafted for this step lay beside its own target work, or that of the step before.
        beside = (*self._target_before, *step.target_busy)
        for drafted in step.draft_busy:
            self.draft_s += drafted.end_s - drafted.start_s
            for span in beside:
                both_s = min(drafted.end_s, span.end_s) - max(drafted.start_s, span.start_s)
                self.beside_s += max(0.0, both_s)
        self._target_before = step.target_busy

    def _forget_oldest(self) -> None:
        del self.steps[:_DROPPED_AT_ONCE]
        for lane in (self.target, self.draft):
            lane.forget_before(self.steps[0].number)


def _draft_work(step: Step, last: bool) -> Work:
    if step.branch is None:
        return Work.DRAFT
    if step.branch == "hit":
        return Work.HIT
    return Work.REDRAFT if last else Work.DISCARDED
