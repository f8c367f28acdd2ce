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

    _SHARED_WEIGHT = 3

    def __init__(self, proposals: int, guess: float = 0.8) -> None:
        """Blocks have so many proposals. `guess` is what is believed of one before any was judged.

        It is high for drafts: one that is tried and loses is soon known, one that is not tried never.
        """
        self._all = Average(guess)
        self._right = [0.0] * proposals
        self._judged = [0.0] * proposals
        """By position, both fading: proposals that were right where all before them were, and that were judged."""
        self._expected: list[float] = []
        """Tokens by rows, until more is learned: choosing asks for all of them at every step."""

    def add(self, accepted: int, verified: int) -> None:
        """Of `verified` proposals so many were accepted."""
        self._expected = []
        for position in range(min(accepted + 1, verified)):
            right = float(position < accepted)
            self._all.add(right)
            self._right[position] = _KEPT * self._right[position] + right
            self._judged[position] = _KEPT * self._judged[position] + 1

    def doubt(self) -> None:
        """Another text begins."""
        self._expected = []
        self._all.doubt()
        for position, judged in enumerate(self._judged):
            kept = min(1.0, _DOUBTED / judged) if judged else 1.0
            self._right[position] *= kept
            self._judged[position] *= kept

    def expected_tokens(self, rows: int) -> float:
        """Of a pass over so many rows: the target's own token, and the proposals that are right."""
        if not self._expected:
            self._expected = self._expect()
        return self._expected[min(rows, len(self._expected)) - 1]

    def _expect(self) -> list[float]:
        tokens = [1.0]
        reached = 1.0
        for right, judged in zip(self._right, self._judged, strict=True):
            reached *= (right + self._SHARED_WEIGHT * self._all.value) / (judged + self._SHARED_WEIGHT)
            tokens.append(tokens[-1] + reached)
        return tokens


class RepeatAcceptance:
    """The same for what followed an earlier repeat of the text's end, by how long that repeat is."""

    def __init__(self, proposals: int) -> None:
        self._by_length = {least: Acceptance(proposals, guess) for least, guess in _GUESSES.items()}

    def of(self, length: int) -> Acceptance:
        """What is known of repeats of this length (3 tokens at least)."""
        return self._by_length[max(least for least in self._by_length if least <= length)]

    def every(self) -> tuple[Acceptance, ...]:
        """What is known of each length."""
        return tuple(self._by_length.values())

    def doubt(self) -> None:
        """Another text begins."""
        for acceptance in self._by_length.values():
            acceptance.doubt()


_GUESSES = {3: 0.5, 5: 0.7, 8: 0.85}
"""How often a repeat is believed to go on by one token more, by its least length."""
_KEPT = 0.97
"""What an older block counts against the one after it."""
_DOUBTED = 2.0
"""So many blocks of an earlier text count at most."""
