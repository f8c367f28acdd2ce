"""Replays of a trace: which steps a way of decoding takes through answers that are known.

The steps are those of the engine itself: its branches are chosen by the engine's own code, and mode `auto` asks the
engine's own controller. How long a step takes is told by whoever replays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from core.bench.trace import Trace
from core.engine.anchors import RIGHT, UNTHOUGHT, Answer, Guess
from core.engine.branches import ALTERNATIVES, Budget, Outcomes, possible_branches
from core.engine.controller import Choice, StepSeen
from core.protocol import Mode

_OTHERS = tuple(range(1, ALTERNATIVES + 1))
"""Stand for the draft's next choices, as `RIGHT` stands for its first: ranks take the place of tokens."""


@dataclass(frozen=True)
class ReplayedStep:
    """One step."""

    mode: Mode
    rows: int
    """Of the pass: proposals + 1."""
    accepted: int
    tokens: int
    branch: Literal["hit", "miss"] | None
    """As in `DecodeStep`: whether the block had been drafted beside the verification before it."""
    branches: int
    """Outcomes that are drafted for beside this step's verification."""


class Plan(Protocol):
    """Says how to decode; the engine's `Controller` is one."""

    def begin_answer(self) -> None:
        """Another text begins."""
        ...

    def choose(self, most_rows: int, depth: int) -> Choice:
        """The next step, of at most so many rows, behind `depth` tokens of the answer."""
        ...

    def observe(self, step: StepSeen) -> None:
        """How a step went."""
        ...


@dataclass(frozen=True)
class Always:
    """The plan that never changes its mind."""

    choice: Choice

    def begin_answer(self) -> None:
        """See `Plan`."""

    def choose(self, most_rows: int, depth: int) -> Choice:  # noqa: ARG002
        """See `Plan`."""
        return self.choice

    def observe(self, step: StepSeen) -> None:
        """See `Plan`."""


def replay(
    trace: Trace, plan: Plan, budget: Budget, step_ms: Callable[[ReplayedStep], float] = lambda _step: 0.0
) -> list[list[ReplayedStep]]:
    """The steps of every answer after its first token.

    Where a text was cut, the steps end before it does, so that none is cut by the end.
    """
    outcomes = Outcomes()
    return [_AnswerReplay(answer, trace.block, budget, outcomes).steps(plan, step_ms) for answer in trace.answers]


@dataclass(frozen=True)
class _Verified:
    """A verification of mode `mirror`, and what was drafted beside it."""

    index: int
    ranks: Sequence[int]
    certainties: Sequence[float]
    verified: int
    branches: frozenset[tuple[int, int]]
    """By accepted proposals and rank."""
    tail: Guess
    """What the block says behind the ranks."""


class _AnswerReplay:
    def __init__(self, answer: Answer, block: int, budget: Budget, outcomes: Outcomes) -> None:
        self._answer = answer
        self._block = block
        self._budget = budget
        self._outcomes = outcomes
        self._last: _Verified | None = None

    def steps(self, plan: Plan, step_ms: Callable[[ReplayedStep], float]) -> list[ReplayedStep]:
        """All of them. The plan is told of a step when the next one begins, as in the engine."""
        taken: list[ReplayedStep] = []
        index = 0
        plan.begin_answer()
        while index < len(self._answer.anchors):
            if taken:
                last = taken[-1]
                depth = index - last.tokens
                plan.observe(StepSeen(last.mode, last.rows, last.accepted, step_ms(last), depth, last.branch))
            taken.append(self._step(index, plan.choose(self._block, index)))
            index += taken[-1].tokens
        return taken

    def _step(self, index: int, choice: Choice) -> ReplayedStep:
        if choice.mode != "mirror":
            self._last = None
        anchor = self._answer.anchors[index]
        branch: Literal["hit", "miss"] | None = None
        ranks: Sequence[int] = ()
        branches = 0
        if choice.mode == "mirror":
            guess, branch = self._guess(index, choice.rows - 1)
            ranks, branches = self._draft_ahead(index, guess, choice.rows - 1)
        elif choice.mode != "plain":
            ranks = (anchor.in_mlx if choice.mode == "gpu" else anchor.fresh.ranks)[: choice.rows - 1]
        left = len(self._answer.tokens) - 1 - index
        accepted = min(_leading(ranks), left)
        return ReplayedStep(choice.mode, len(ranks) + 1, accepted, min(accepted + 1, left), branch, branches)

    def _guess(self, index: int, rows: int) -> tuple[Guess, Literal["hit", "miss"] | None]:
        """The block behind a token: that of its branch, the last block's tail, or a fresh one."""
        last, fresh = self._last, self._answer.anchors[index].fresh
        if last is None:
            return fresh, None
        accepted = index - last.index - 1
        rank = last.ranks[accepted] if accepted < len(last.ranks) else UNTHOUGHT
        corrected = accepted < last.verified and rank in _OTHERS
        self._outcomes.observe(last.certainties, last.verified, accepted, rank - 1 if corrected else None)
        if (accepted, rank) in last.branches:
            return self._answer.anchors[last.index].ahead[last.verified + 1, accepted + 1], "hit"
        if accepted == last.verified and rank == RIGHT and 2 * len(last.tail.ranks) >= max(rows, 2):
            return last.tail, "hit"
        return fresh, "miss" if last.branches or len(last.tail.ranks) else None

    def _draft_ahead(self, index: int, guess: Guess, rows: int) -> tuple[Sequence[int], int]:
        """The ranks of what is verified, and how many outcomes get columns."""
        ranks, certainties = guess.ranks[: rows + 1], guess.certainties[: rows + 1]
        verified = min(rows, len(ranks))
        tokens, others = [RIGHT] * len(ranks), [_OTHERS] * len(ranks)
        possible = possible_branches(tokens, others, self._outcomes, certainties, verified, self._block)
        chosen = self._budget.choose(possible)
        places = frozenset((branch.accepted, branch.token) for branch in chosen)
        tail = Guess(guess.ranks[len(ranks) :], guess.certainties[len(ranks) :])
        self._last = _Verified(index, ranks, certainties, verified, places, tail)
        return ranks[:verified], len(chosen) + bool(len(tail.ranks))


def _leading(ranks: Sequence[int]) -> int:
    """How many are right before the first that is not."""
    return next((index for index, rank in enumerate(ranks) if rank != RIGHT), len(ranks))
