"""What one rule says of a pair, in a sentence with the values that it compared."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["ok", "warning", "failed", "unknown"]


class Verdict(msgspec.Struct, frozen=True):
    """One rule's answer."""

    rule: str
    """The rule's name, for example `hidden size`."""
    outcome: Outcome
    """`failed`: the pair cannot be run. `warning`: it runs, with a drawback. `unknown`: nothing there to judge by."""
    sentence: str
    """For the user."""


class Compatibility(msgspec.Struct, frozen=True):
    """Every rule's answer about a target and its draft, or about a target alone."""

    target: str
    draft: str | None
    verdicts: tuple[Verdict, ...]

    @property
    def runs(self) -> bool:
        """Whether no rule failed."""
        return not self.reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the pair cannot be run; empty where it can."""
        return tuple(v.sentence for v in self.verdicts if v.outcome == "failed")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before it is run."""
        return tuple(v.sentence for v in self.verdicts if v.outcome == "warning")


def judged(rule: str, sound: bool, sentence: str, *, otherwise: Outcome = "failed") -> Verdict:
    """`ok` where `sound`, else `otherwise`."""
    return Verdict(rule, "ok" if sound else otherwise, sentence)
