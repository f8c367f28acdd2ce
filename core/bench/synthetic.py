"""Traces that nobody recorded: of a draft that accepts as many tokens as others have published.

The demo draft accepts far fewer tokens than published ones do, and its blocks are shorter. In a synthetic trace every
proposal is right with one chance, whatever stands before it, so that blocks verified whole give the published tokens a
step. How certain a draft is where it is right or wrong, which of its next choices is right where it is wrong, and
what blocks drafted ahead lose against fresh ones comes from the recorded trace.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from core.bench.trace import Trace
from core.engine.anchors import RIGHT, UNTHOUGHT, Anchor, Answer, Guess, branch_masks

_ANSWERS, _TOKENS = 40, 256


def synthetic(trace: Trace, tokens_per_step: float, block: int = 16, after_hits: float = 1.0) -> Trace:
    """A draft of such blocks that gives so many tokens a step, otherwise like the one of `trace`, which is a real one.

    `after_hits` is a further factor on the chance of blocks drafted ahead. Always the same for the same arguments.
    """
    drawn = _Draws(trace, block)
    chance = chance_for(tokens_per_step, block)
    ahead_chance = chance * drawn.ahead_ratio * after_hits
    answers = tuple(drawn.answer(np.random.default_rng(index), chance, ahead_chance) for index in range(_ANSWERS))
    widths = tuple(range(2, block + 1))
    return Trace(f"synthetic, {tokens_per_step} tokens a step", "", block, widths, ("",) * _ANSWERS, answers)


def chance_for(tokens_per_step: float, rows: int) -> float:
    """The chance of each proposal that gives so many tokens a step: 1 + p + p^2 + ... over `rows` terms."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if sum(middle**k for k in range(rows)) < tokens_per_step:
            low = middle
        else:
            high = middle
    return low


class _Draws:
    """What is drawn from a recorded trace."""

    def __init__(self, trace: Trace, block: int) -> None:
        anchors = [anchor for answer in trace.answers for anchor in answer.anchors]
        pairs = [pair for anchor in anchors for pair in zip(anchor.fresh.ranks, anchor.fresh.certainties, strict=True)]
        self._block = block
        self._wrong_ranks = [rank for rank, _ in pairs if rank != RIGHT] or [UNTHOUGHT]
        self._certainties = [[certain for rank, certain in pairs if (rank == RIGHT) == right] for right in (0, 1)]
        self.ahead_ratio = ahead_ratio(trace)

    def answer(self, random: np.random.Generator, chance: float, ahead_chance: float) -> Answer:
        """One place of the text is as easy, or as hard, for all blocks."""
        count = _TOKENS + 2 * self._block
        luck = random.random(count)
        wrong_ranks = random.choice(self._wrong_ranks, count)
        certainties = [random.choice(kind or [0.5], count) for kind in self._certainties]

        def guess(first: int, length: int, chance: float) -> Guess:
            places = slice(first, first + length)
            right = luck[places] < chance
            ranks = np.where(right, RIGHT, wrong_ranks[places])
            certain = np.where(right, certainties[1][places], certainties[0][places])
            return Guess(tuple(ranks.tolist()), tuple(certain.tolist()))

        anchors = []
        for index in range(_TOKENS - self._block):
            fresh = guess(index + 1, self._block - 1, chance)
            anchors.append(Anchor(fresh.ranks, fresh, _Ahead(self._block, index, ahead_chance, guess)))
        return Answer((0,) * _TOKENS, False, tuple(anchors))


class _Ahead(dict[tuple[int, int], Guess]):
    """The branches of a place of the text, made when they are asked for: most never are."""

    def __init__(self, block: int, index: int, chance: float, guess: Callable[[int, int, float], Guess]) -> None:
        super().__init__()
        self._block = block
        self._index = index
        self._chance = chance
        self._guess = guess

    def __missing__(self, key: tuple[int, int]) -> Guess:
        width, known = key
        return self._guess(self._index + known + 1, branch_masks(width, known, self._block), self._chance)


def ahead_ratio(trace: Trace) -> float:
    """How often proposals of blocks drafted ahead are right, as a share of how often fresh ones are at their places."""
    ahead = fresh = 0
    for answer in trace.answers:
        for index, anchor in enumerate(answer.anchors):
            for (_, known), branch in anchor.ahead.items():
                if index + known < len(answer.anchors):
                    there = answer.anchors[index + known].fresh.ranks[: len(branch.ranks)]
                    ahead += branch.ranks.count(RIGHT)
                    fresh += there.count(RIGHT)
    return ahead / fresh if fresh else 1.0
