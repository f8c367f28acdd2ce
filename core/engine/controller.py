"""Chooses mode and width of each step by expected tokens a millisecond, from measured costs and acceptance so far.

No mode is switched off for good: where plain decoding wins, a draft is tried again now and then, ever more rarely while
that does not change the picture. What such a trial costs is part of the answer's time like everything else.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.protocol import Mode

_MEMORY = 0.95
"""Of running averages: what an older step counts against the one after it."""
_FIRST_GUESS = 0.6
"""The share of proposals that are right, before any was judged."""
_ADVANTAGE = 1.05
"""Another mode must be this much faster to be worth a change of mind."""
_FIRST_TRIAL_STEPS, _LAST_TRIAL_STEPS = 12, 96
"""Plain steps between two trials of a draft, at first and at most."""


@dataclass(frozen=True)
class Costs:
    """Measured at load, in milliseconds."""

    verify_ms: tuple[float, ...]
    """By rows of a pass, from 1 on."""
    draft_ms: dict[Mode, float]
    """Of a block, by mode."""


@dataclass(frozen=True)
class Choice:
    """How the next step is decoded."""

    mode: Mode
    rows: int
    """Of the pass: proposals + 1."""


class Controller:
    """Learns from every step of every answer of a loaded pair."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._right = [_FIRST_GUESS] * (len(costs.verify_ms) - 1)
        """By position: the share of proposals that were right where all before them were."""
        self._slowness: dict[Mode, float] = dict.fromkeys(("plain", *costs.draft_ms), 1.0)
        """By mode: what steps take against what the costs say, which knows nothing of the context's length."""
        self._mode: Mode = "plain"
        self._trial_steps = _FIRST_TRIAL_STEPS
        self._since_trial = 0
        self.reason = ""
        """Why the mode of the last choice is another than that before; empty where it is not."""

    def expected_tokens(self, rows: int) -> float:
        """Of a pass over so many rows."""
        tokens = reached = 1.0
        for right in self._right[: rows - 1]:
            reached *= right
            tokens += reached
        return tokens

    def step_ms(self, choice: Choice) -> float:
        """What such a step takes."""
        draft_ms = self._costs.draft_ms[choice.mode] if choice.rows > 1 else 0.0
        return self._slowness[choice.mode] * (draft_ms + self._costs.verify_ms[choice.rows - 1])

    def choose(self, most_rows: int) -> Choice:
        """The next step, of at most so many rows."""
        plain, drafted = Choice("plain", 1), self._best_drafted(most_rows)
        self.reason = ""
        if drafted is None:
            return plain
        rates = {choice.mode: self._rate(choice) for choice in (plain, drafted)}
        wanted = drafted if rates[drafted.mode] > rates["plain"] else plain
        if (wanted.mode == "plain") != (self._mode == "plain"):
            losing = rates["plain"] if wanted is drafted else rates[drafted.mode]
            if self._rate(wanted) > _ADVANTAGE * losing:
                self._change(wanted, drafted)
        elif wanted is drafted:
            self._mode = drafted.mode
        if self._mode != "plain":
            return drafted
        self._since_trial += 1
        if self._since_trial > self._trial_steps:
            self._since_trial = 0
            self._trial_steps = min(2 * self._trial_steps, _LAST_TRIAL_STEPS)
            return drafted
        return plain

    def observe(self, choice: Choice, verified: int, accepted: int, step_ms: float) -> None:
        """A step took so long; of `verified` proposals so many were accepted."""
        for position in range(min(accepted + 1, verified)):
            self._right[position] += (1 - _MEMORY) * (float(position < accepted) - self._right[position])
        if verified + 1 == choice.rows:
            expected_ms = self.step_ms(choice) / self._slowness[choice.mode]
            self._slowness[choice.mode] += (1 - _MEMORY) * (step_ms / expected_ms - self._slowness[choice.mode])

    def _best_drafted(self, most_rows: int) -> Choice | None:
        choices = [
            Choice(mode, rows)
            for mode in self._costs.draft_ms
            for rows in range(2, min(most_rows, len(self._costs.verify_ms)) + 1)
        ]
        return max(choices, key=self._rate, default=None)

    def _rate(self, choice: Choice) -> float:
        return self.expected_tokens(choice.rows) / self.step_ms(choice)

    def _change(self, wanted: Choice, drafted: Choice) -> None:
        self._mode = wanted.mode
        self._trial_steps, self._since_trial = _FIRST_TRIAL_STEPS, 0
        needed = self.step_ms(drafted) / self.step_ms(Choice("plain", 1))
        given = self.expected_tokens(drafted.rows)
        verb = "is" if wanted is drafted else "would be"
        self.reason = (
            f"The draft gives about {given:.2f} tokens a step here and {needed:.2f} are needed: "
            f"drafting {verb} {'faster' if given > needed else 'slower'}."
        )
