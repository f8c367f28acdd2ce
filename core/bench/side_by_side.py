"""Modes that decode the same answer side by side, some tokens in turns, each by a clock of its own.

Single answers of ten seconds differ by a tenth on a machine that does other work too: more than what `auto` may lose.
Here such work meets all modes alike.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import cycle
from statistics import harmonic_mean, mean, median
from unittest.mock import patch

from core.bench.rows import Row, row
from core.engine.answer import make_source
from core.engine.controller import Controller
from core.engine.decode import DecodeStep, Limits, decode
from core.engine.device import wait_for_device
from core.engine.draft_thread import DRAFT_TIMEOUT_S
from core.engine.loader import LoadedPair
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.step_figures import lost_share, tokens_per_second
from core.protocol import GenerateOptions, Mode

LONG_ANSWER_TOKENS = 200
TURN_TOKENS = 5


@dataclass
class _Turns:
    """An answer in one mode that is decoded now and then."""

    loaded: LoadedPair
    steps_to_come: Generator[DecodeStep, None, None]
    steps: list[DecodeStep] = field(default_factory=list)
    stood_s: float = 0.0
    """How long its clock stood; a clock runs on until the first turn begins."""
    left_s: float | None = None

    @property
    def tokens(self) -> int:
        """How many there are."""
        return sum(len(step.tokens) for step in self.steps)

    def decode_until(self, tokens: int) -> None:
        """Go on until there are so many tokens, and wait for what was begun ahead of the next."""
        with self._own_clock():
            while self.tokens < tokens and (step := next(self.steps_to_come, None)) is not None:
                self.steps.append(step)
            wait_for_device()
            if self.loaded.programs is not None:
                self.loaded.programs.thread.begin(_nothing).wait(DRAFT_TIMEOUT_S)

    @contextmanager
    def _own_clock(self) -> Generator[None, None, None]:
        """All that asks for the time is told how long this answer has been decoded; it stands between turns."""
        clock = time.perf_counter
        if self.left_s is not None:
            self.stood_s += clock() - self.left_s
        with patch.object(time, "perf_counter", lambda: clock() - self.stood_s):
            yield
        self.left_s = clock()


def _nothing() -> None:
    pass


def decode_side_by_side(
    loaded: LoadedPair,
    prompt: Sequence[int],
    modes: Sequence[Mode],
    tokens: int,
    options: GenerateOptions,
    turn_tokens: int = TURN_TOKENS,
) -> list[list[DecodeStep]]:
    """The steps of an answer of `tokens` tokens in each of `modes`, `turn_tokens` of them in turns, beginning with the
    first. A step's times are those of its own answer's clock. Drafts do not share the target's noise.
    """
    answers = []
    for mode in modes:
        own = replace(loaded, session=Session(loaded.target, loaded.drafter))
        own.session.read(prompt)
        sampler, drafts = (Sampler(each, loaded.target.vocab_size) for each in (options, GenerateOptions()))
        limits = Limits(tokens, frozenset(), loaded.most_rows)
        steps = decode(own.session, prompt[-1], make_source(mode, own, drafts), sampler, limits)
        answers.append(_Turns(own, steps))
    for reached in range(1, tokens + turn_tokens, turn_tokens):
        for answer in answers:
            answer.decode_until(min(reached, tokens))
    return [answer.steps for answer in answers]


_LONG_ANSWERS = {"chat": 0.0, "random words": 3.0}
"""Temperatures, by what the text is. At 3 the target draws words at random, and a draft that does not share its noise
is wrong."""
_SYSTEMS: tuple[Mode, ...] = ("plain", "auto", "plain")
"""What differs between the first and the last the machine does."""
_READINGS = 2
"""Of each answer, by controllers that begin alike: one reading is uncertain by 2 %."""


def long_answer_rows(loaded: LoadedPair, prompts: Sequence[Sequence[int]], runs: int) -> list[Row]:
    """Mode `auto` against plain decoding over `runs` answers of 200 tokens to `prompts` in turn; of each kind the first
    is by a controller that knows nothing yet.
    """
    rows = []
    for kind, temperature in _LONG_ANSWERS.items():
        if loaded.controller is not None:
            loaded.controller = Controller(loaded.controller.costs)
        speeds: list[list[float]] = [[], [], []]
        lost: list[float] = []
        for run, prompt in zip(range(runs), cycle(prompts), strict=False):
            options = GenerateOptions(temperature=temperature, seed=run)
            answers = _read_answer(loaded, prompt, options, first=run % len(_SYSTEMS))
            for index, readings in enumerate(answers):
                speeds[index].append(harmonic_mean(map(tokens_per_second, readings)))
                if _SYSTEMS[index] == "auto":
                    lost.append(100 * mean(map(lost_share, readings)))
        what = f"{LONG_ANSWER_TOKENS} tokens of {kind}"
        plain, auto, again = speeds
        rows.append(row(f"auto: {what}: speed", "tok/s", auto, plain, "plain"))
        both = [harmonic_mean(each) for each in zip(plain, again, strict=True)]
        rows.append(_by_answer(f"auto: {what}: against plain, by answer", auto, both))
        rows.append(_by_answer(f"plain: {what}: against itself, by answer", again, plain))
        rows.append(row(f"auto: {what}: lost by drafting", "%", lost))
    return rows


def _read_answer(
    loaded: LoadedPair, prompt: Sequence[int], options: GenerateOptions, first: int
) -> list[list[list[DecodeStep]]]:
    """The readings of an answer, by `_SYSTEMS`; the turns begin with that of index `first`."""
    before = loaded.controller
    order = [*range(first, len(_SYSTEMS)), *range(first)]
    readings: list[list[list[DecodeStep]]] = [[] for _ in _SYSTEMS]
    for _ in range(_READINGS):
        loaded.controller = deepcopy(before)
        modes = [_SYSTEMS[index] for index in order]
        answers = decode_side_by_side(loaded, prompt, modes, LONG_ANSWER_TOKENS, options)
        for index, steps in zip(order, answers, strict=True):
            readings[index].append(steps)
    return readings


def _by_answer(name: str, mine: Sequence[float], plain: Sequence[float]) -> Row:
    ratios = [one / other for one, other in zip(mine, plain, strict=True)]
    return Row(name, median(ratios), "x", (min(ratios), max(ratios)))
