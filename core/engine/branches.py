"""Which outcomes of a verification get a block drafted beside it, and how likely outcomes are.

While the target verifies [a, d_1 .. d_v], the outcome "k accepted, then c" is prepared by a block that knows a,
d_1 .. d_k and c and has masks behind. For k < v, c is one of the draft's next choices where d_{k+1} stood; for k = v it
is d_{v+1}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_PROPOSALS = 63
ALTERNATIVES = 4
"""Choices of the draft behind its first, at each position."""
_MEMORY = 0.97
"""Of a running average: what an older step counts against the one after it."""
_LEAST_PROBABILITY = 0.02
"""Outcomes less likely than this get no columns."""


@dataclass(frozen=True)
class Branch:
    """One outcome."""

    accepted: int
    token: int
    """What the target then says."""
    masks: int
    """Tokens drafted behind it."""
    probability: float

    @property
    def columns(self) -> int:
        """The anchor, what was accepted, the token, masks."""
        return self.accepted + 2 + self.masks


class Outcomes:
    """What verifications came to so far, as running averages."""

    def __init__(self) -> None:
        self._right = [0.5] * MAX_PROPOSALS
        """By position: the share of proposals that were right where all before them were."""
        self._certain = [0.5] * MAX_PROPOSALS
        """By position: how certain the draft was of them."""
        self._alternatives = [0.3 / 2**rank for rank in range(ALTERNATIVES)]
        """By rank: the share of corrections that were this alternative."""

    def probabilities(self, certainties: Sequence[float]) -> list[float]:
        """By position: how likely each proposal is right where all before it are."""
        return [
            min(0.98, max(0.02, certainty * right / certain))
            for certainty, right, certain in zip(certainties, self._right, self._certain, strict=False)
        ]

    @property
    def alternatives(self) -> list[float]:
        """By rank: how likely a correction is this alternative."""
        return self._alternatives

    def observe(self, certainties: Sequence[float], verified: int, accepted: int, rank: int | None) -> None:
        """A verification of `verified` proposals accepted so many; a correction was the alternative `rank`, or none."""
        for position in range(min(accepted + 1, verified)):
            right = float(position < accepted)
            self._right[position] += (1 - _MEMORY) * (right - self._right[position])
            self._certain[position] += (1 - _MEMORY) * (certainties[position] - self._certain[position])
        if accepted < verified:
            for other, share in enumerate(self._alternatives):
                self._alternatives[other] += (1 - _MEMORY) * (float(other == rank) - share)


def possible_branches(
    tokens: Sequence[int],
    others: Sequence[Sequence[int]],
    outcomes: Outcomes,
    certainties: Sequence[float],
    verified: int,
    block: int,
) -> list[Branch]:
    """All outcomes of verifying the first `verified` of the draft's `tokens` that the draft thought of.

    `others` are the draft's next choices by position, as long as `tokens`. Masks stay where the draft was trained: at
    most `block` - 1 positions behind the last known feature, which stands before the anchor.
    """
    found, reached = [], 1.0
    probabilities = outcomes.probabilities(certainties)
    for accepted in range(min(verified + 1, len(tokens))):
        masks = min(verified + 1, block - 2 - accepted)
        if masks < 1:
            break
        right = probabilities[accepted]
        if accepted == verified:
            found.append(Branch(accepted, tokens[accepted], masks, reached * right))
        else:
            wrong = reached * (1 - right)
            ranked = zip(others[accepted], outcomes.alternatives, strict=True)
            found += [Branch(accepted, token, masks, wrong * share) for token, share in ranked]
        reached *= right
    return found


@dataclass(frozen=True)
class Budget:
    """What drafting ahead costs, by columns, and what it saves."""

    added_ms: tuple[tuple[int, float], ...]
    """Columns that can be drafted at once, with what they add to a step."""
    saved_ms: float
    """By a hit: the block that need not be drafted."""

    @classmethod
    def flat(cls, columns: int) -> Budget:
        """All columns cost the same."""
        return cls(((columns, 0.0),), 1.0)

    def choose(self, possible: Sequence[Branch]) -> list[Branch]:
        """The branches that are expected to save the most. Some, where any fit: to draft none is another mode."""
        chosen = [(choose_branches(possible, columns), added_ms) for columns, added_ms in self.added_ms]
        return max(chosen, key=lambda one: (len(one[0]) > 0, self._gain_ms(*one)))[0]

    def _gain_ms(self, branches: Sequence[Branch], added_ms: float) -> float:
        return self.saved_ms * sum(branch.probability for branch in branches) - added_ms


def choose_branches(possible: Sequence[Branch], columns: int) -> list[Branch]:
    """Those worth their columns, `columns` in all: by probability a column, as long as they fit."""
    chosen, left = [], columns
    for branch in sorted(possible, key=lambda branch: -branch.probability / branch.columns):
        if branch.columns <= left and branch.probability >= _LEAST_PROBABILITY:
            chosen.append(branch)
            left -= branch.columns
    return chosen
