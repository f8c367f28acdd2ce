"""Running averages that the controller learns by."""

from __future__ import annotations


class Average:
    """A running average that follows its first values faster."""

    def __init__(self, guess: float, weight: int = 2, most: int = 20) -> None:
        """`guess` counts as much as `weight` values; later a new value counts one in `most`."""
        self.value = guess
        self._count = weight
        self._most = most

    def add(self, value: float) -> None:
        """Take one value."""
        self._count = min(self._count + 1, self._most)
        self.value += (value - self.value) / self._count

    def doubt(self) -> None:
        """Follow the next values faster again: what they are about may have changed."""
        self._count = min(self._count, 3)


class Acceptance:
    """How many proposals of a block prove right, by position.

    What is known of a position counts more the oftener it was judged; until then it is taken to be like the others: a
    position that is hardly ever reached says nothing of its own.
    """

    _FIRST_GUESS = 0.8
    """High: a draft that is tried and loses is soon known, one that is not tried never."""
    _SHARED_WEIGHT = 3

    def __init__(self, proposals: int) -> None:
        self._all = Average(self._FIRST_GUESS)
        self._right = [0.0] * proposals
        self._judged = [0.0] * proposals
        """By position, both fading: proposals that were right where all before them were, and that were judged."""

    def add(self, accepted: int, verified: int) -> None:
        """Of `verified` proposals so many were accepted."""
        for position in range(min(accepted + 1, verified)):
            right = float(position < accepted)
            self._all.add(right)
            self._right[position] = _KEPT * self._right[position] + right
            self._judged[position] = _KEPT * self._judged[position] + 1

    def doubt(self) -> None:
        """Another text begins."""
        self._all.doubt()
        for position, judged in enumerate(self._judged):
            kept = min(1.0, _DOUBTED / judged) if judged else 1.0
            self._right[position] *= kept
            self._judged[position] *= kept

    def expected_tokens(self, rows: int) -> float:
        """Of a pass over so many rows: the target's own token, and the proposals that are right."""
        tokens = reached = 1.0
        for right, judged in zip(self._right[: rows - 1], self._judged, strict=False):
            reached *= (right + self._SHARED_WEIGHT * self._all.value) / (judged + self._SHARED_WEIGHT)
            tokens += reached
        return tokens


_KEPT = 0.97
"""What an older block counts against the one after it."""
_DOUBTED = 2.0
"""So many blocks of an earlier text count at most."""
