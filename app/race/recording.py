"""One side of a race as it happened: what was said when, on a clock that starts at the first token. No Qt."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from core.protocol import Done, Mode, Step


@dataclass(frozen=True)
class Moment:
    """A side at a time of the clock."""

    length: int
    """Of the text so far, in characters."""
    tokens: int
    elapsed_s: float
    """At most the side's own time."""
    ended: bool

    @property
    def tokens_per_second(self) -> float | None:
        """Of the tokens after the first; None before there are two."""
        return (self.tokens - 1) / self.elapsed_s if self.tokens > 1 and self.elapsed_s > 0 else None


class Recording:
    """Collects the steps of an answer."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.text = ""
        """Thinking and answer, as they came."""
        self.token_ids: list[int] = []
        self.token_texts: list[str] = []
        self.done: Done | None = None
        self._times_s: list[float] = []
        self._lengths: list[int] = []
        self._counts: list[int] = []

    @property
    def whole(self) -> bool:
        """Whether the answer came to its own end."""
        return self.done is not None and self.done.finish_reason != "cancelled"

    @property
    def end_s(self) -> float:
        """When the last token was known."""
        return self._times_s[-1] if self._times_s else 0.0

    def add(self, step: Step) -> None:
        """The next step."""
        self.text += step.thinking + step.text
        self.token_ids += [token.id for token in step.tokens]
        self.token_texts += [token.text for token in step.tokens]
        self._times_s.append(step.elapsed_s)
        self._lengths.append(len(self.text))
        self._counts.append(len(self.token_ids))

    def end(self, done: Done) -> None:
        """The answer has ended: what was held back until its end was sure belongs to the last step."""
        self.done = done
        whole = done.thinking + done.text
        if whole.startswith(self.text) and self._lengths:
            self.text = whole
            self._lengths[-1] = len(whole)

    def at(self, time_s: float) -> Moment:
        """The side at this time of the clock."""
        index = bisect_right(self._times_s, time_s) - 1
        ended = self.done is not None and time_s >= self.end_s
        if index < 0:
            return Moment(0, 0, 0.0, ended)
        elapsed_s = self.end_s if ended else min(time_s, self.end_s) if self.done else time_s
        return Moment(self._lengths[index], self._counts[index], elapsed_s, ended)

    def now(self) -> Moment:
        """The side as far as it is known."""
        return self.at(self.end_s)


@dataclass(frozen=True)
class Difference:
    """Where two answers first differ."""

    position: int
    """1-based token."""
    left: str | None
    """What the token says; None where the answer had ended."""
    right: str | None
    before: str
    """The text that both have before it."""


def first_difference(left: Recording, right: Recording) -> Difference | None:
    """None where the answers are the same, token for token."""
    longest = max(len(left.token_ids), len(right.token_ids))
    for index in range(longest):
        ours, theirs = left.token_ids[index : index + 1], right.token_ids[index : index + 1]
        if ours != theirs:
            return Difference(
                index + 1,
                left.token_texts[index] if ours else None,
                right.token_texts[index] if theirs else None,
                "".join(left.token_texts[:index]),
            )
    return None
