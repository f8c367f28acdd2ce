"""What the steps of answers say: speed, tokens a step, and how drafting beside the verification went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, Protocol

from core.engine.decode import DecodeStep
from core.engine.spans import beside_s, covered_s


class Guessed(Protocol):
    """A step as far as hits go: a decoded one, or a replayed one."""

    @property
    def branch(self) -> Literal["hit", "miss"] | None:
        """Whether its outcome had been guessed; None where nothing was guessed."""
        ...


def tokens_of(steps: Sequence[DecodeStep]) -> tuple[int, ...]:
    """All tokens of an answer."""
    return tuple(token for step in steps for token in step.tokens)


def tokens_per_second(steps: Sequence[DecodeStep]) -> float:
    """Of an answer: tokens after the first step, which ends the prompt, over the time since; 0 for one step."""
    tokens = len(tokens_of(steps[1:]))
    return tokens / (steps[-1].done_s - steps[0].done_s) if tokens else 0.0


def tokens_per_step(steps: Sequence[DecodeStep]) -> float:
    """Of an answer's steps after the first; 0 for one step."""
    return len(tokens_of(steps[1:])) / max(len(steps) - 1, 1)


def hit_rate(steps: Sequence[Guessed]) -> float | None:
    """Of the steps whose outcome was guessed, the share that was guessed right; None where nothing was guessed."""
    guessed = [step.branch for step in steps if step.branch]
    return guessed.count("hit") / len(guessed) if guessed else None


def hits_by_accepted(steps: Sequence[DecodeStep]) -> dict[int, tuple[int, int]]:
    """By the proposals that were accepted in the step before: guessed steps that hit, and all of them.

    `steps` are those of whole answers, one after the other.
    """
    found: dict[int, tuple[int, int]] = {}
    for before, step in _guessed(steps):
        hits, guessed = found.get(before.accepted, (0, 0))
        found[before.accepted] = hits + (step.branch == "hit"), guessed + 1
    return dict(sorted(found.items()))


def overlap(steps: Sequence[DecodeStep]) -> float:
    """(busy time of both devices - time in which one was busy) / busy time of the draft; 0 without a draft."""
    draft_s = sum(step.draft_ms for step in steps) / 1e3
    return beside_s(span for step in steps for span in step.busy) / draft_s if draft_s else 0.0


def hidden_on_hits(steps: Sequence[DecodeStep]) -> float | None:
    """Of the draft's time for steps that hit, the share that lay beside the verification; None without a hit.

    `steps` as above.
    """
    spans = [
        (covered_s(before.target_busy, *span), span[1] - span[0])
        for before, step in _guessed(steps)
        if step.branch == "hit"
        for span in step.draft_busy
    ]
    drafted_s = sum(length_s for _, length_s in spans)
    return sum(hidden_s for hidden_s, _ in spans) / drafted_s if drafted_s else None


def _guessed(steps: Sequence[DecodeStep]) -> Iterator[tuple[DecodeStep, DecodeStep]]:
    return ((before, step) for before, step in pairwise(steps) if step.branch)


def lost_share(steps: Sequence[DecodeStep]) -> float:
    """Of an answer's time, what drafted steps took beyond plain ones for the same tokens; below 0 where they gained.

    A plain step is taken to last as long as the median of those of the same answer, so that a machine that is busier
    during one answer than during another makes no difference. 0 for an answer without plain steps.
    """
    took_s = [(step, step.done_s - before.done_s) for before, step in pairwise(steps)]
    plain_s = [took for step, took in took_s if not step.proposals]
    if not plain_s:
        return 0.0
    token_s = median(plain_s)
    beyond_s = sum(took - len(step.tokens) * token_s for step, took in took_s if step.proposals)
    return beyond_s / sum(took for _, took in took_s)
