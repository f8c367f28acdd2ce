"""What the steps of answers say about drafting beside the verification: hits, overlap, what stays hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from core.engine.decode import DecodeStep
from core.engine.spans import beside_s, covered_s


def hit_rate(steps: Sequence[DecodeStep]) -> float | None:
    """Of the steps whose outcome was guessed, the share that was guessed right; None where nothing was guessed."""
    guessed = [step for step in steps if step.branch]
    return sum(step.branch == "hit" for step in guessed) / len(guessed) if guessed else None


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
