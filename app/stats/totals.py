"""Sums over the steps of one answer, or of several. No Qt."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields

from app.stats.text_kind import TextKind
from core.chats import Figures as SavedFigures
from core.protocol import Done, Mode, Step

MEANINGFUL_TOKENS = 8
"""An answer of fewer says nothing about speed."""
MEANINGFUL_OFFERS = 4
"""A share of fewer says nothing."""


@dataclass(frozen=True)
class Position:
    """One position in the block: how many blocks proposed a token there, and in how many it was accepted."""

    offered: int
    accepted: int

    @property
    def share(self) -> float | None:
        """None where too few were offered."""
        return self.accepted / self.offered if self.offered >= MEANINGFUL_OFFERS else None


@dataclass(frozen=True)
class Comparison:
    """Answers against plain decoding of the same tokens."""

    speed_up: float
    plain_s: float
    took_s: float


@dataclass
class Totals:
    """Sums over passes; the first token of an answer comes from reading the prompt and is no pass."""

    passes: int = 0
    tokens: int = 0
    """Of the passes: those after the first of each answer."""
    proposed: int = 0
    accepted: int = 0
    width: int = 0
    timed_passes: int = 0
    """Passes whose times are known: saved answers keep none."""
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    other_ms: float = 0.0
    decode_s: float = 0.0
    plain_s: float = 0.0
    """What plain decoding would have taken for the answers that can be compared with it."""
    took_s: float = 0.0
    """What those answers took."""
    answers: int = 0
    """That have ended."""
    modes: Counter[Mode] = field(default_factory=Counter)
    by_proposed: Counter[int] = field(default_factory=Counter)
    """Blocks by how many tokens they proposed."""
    by_accepted: Counter[int] = field(default_factory=Counter)
    kind_passes: Counter[TextKind] = field(default_factory=Counter)
    """Passes that verified a block, by what the text was."""
    kind_tokens: Counter[TextKind] = field(default_factory=Counter)

    def add(self, step: Step, kind: TextKind) -> None:
        """A step of the answer; its first one counts for nothing."""
        if step.elapsed_s <= 0:
            return
        self.passes += 1
        self.timed_passes += 1
        self.modes[step.mode] += 1
        self.tokens += len(step.tokens)
        self.width = max(self.width, step.width)
        self.draft_ms += step.draft_ms
        self.verify_ms += step.verify_ms
        self.other_ms += step.rollback_ms + step.host_ms
        self.decode_s = step.elapsed_s
        if step.proposed:
            self.proposed += step.proposed
            self.accepted += step.accepted
            self.by_proposed[step.proposed] += 1
            self.by_accepted[step.accepted] += 1
            self.kind_passes[kind] += 1
            self.kind_tokens[kind] += len(step.tokens)

    def end(self, done: Done | SavedFigures | None) -> None:
        """The answer has ended; None where it broke off without figures."""
        self.answers += 1
        if done is not None:
            self.decode_s = done.decode_s
            if compared := compare_with_plain(done):
                self.plain_s, self.took_s = compared.plain_s, compared.took_s

    @classmethod
    def of_saved(cls, saved: SavedFigures) -> Totals:
        """An answer of which only its figures were kept."""
        totals = cls(passes=saved.steps, tokens=saved.timed_tokens)
        totals.proposed, totals.accepted = saved.proposed, saved.accepted
        totals.end(saved)
        return totals

    def plus(self, other: Totals) -> Totals:
        """Both together."""
        summed = {each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)}
        return Totals(**(summed | {"width": max(self.width, other.width)}))

    @property
    def mode_shares(self) -> tuple[tuple[Mode, float], ...]:
        """Of the passes, by mode; the greatest first."""
        passes = self.modes.total()
        return tuple((mode, count / passes) for mode, count in self.modes.most_common())

    @property
    def positions(self) -> tuple[Position, ...]:
        """By position in the block, from the first."""
        found: list[Position] = []
        offered = accepted = 0
        for position in range(max(self.by_proposed, default=0), 0, -1):
            offered += self.by_proposed[position]
            accepted += self.by_accepted[position]
            found.append(Position(offered, accepted))
        return tuple(reversed(found))

    @property
    def kinds(self) -> tuple[tuple[TextKind, float], ...]:
        """Tokens per step by what the text was, where enough blocks were verified to say so."""
        return tuple(
            (kind, self.kind_tokens[kind] / passes)
            for kind, passes in sorted(self.kind_passes.items())
            if passes >= MEANINGFUL_TOKENS
        )

    @property
    def comparison(self) -> Comparison | None:
        """With plain decoding, over the answers that could be compared."""
        return Comparison(self.plain_s / self.took_s, self.plain_s, self.took_s) if self.took_s else None


def compare_with_plain(done: Done | SavedFigures) -> Comparison | None:
    """How long plain decoding would have taken for the tokens after the first, at its measured time per token.

    The first token comes from reading the prompt, which is the same in both. None where plain decoding was not
    measured, where nothing was proposed in the answer, or where it is too short to say anything.
    """
    plain_s = done.plain_decode_s
    if not done.proposed or done.tokens < MEANINGFUL_TOKENS or plain_s <= 0 or done.decode_s <= 0:
        return None
    return Comparison(plain_s / done.decode_s, plain_s, done.decode_s)
