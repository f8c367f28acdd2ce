"""Decoding against others: our loop and mlx-lm's, our `gpu` mode and the public dflash package, time to first token.

Everything is measured in turns on the same prompts, so that noise of the machine meets all alike. Greedy; ends of
sequence are ignored, so that all answers are equally long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from core.bench.peers import Peer
from core.bench.rows import Row, row, single
from core.engine.decode import DecodeStep, Limits
from core.engine.loader import LoadedPair
from core.engine.measure import decode_anew
from core.engine.step_figures import (
    hidden_on_hits,
    hit_rate,
    hits_by_accepted,
    overlap,
    tokens_of,
)
from core.protocol import Mode


@dataclass(frozen=True)
class Measured:
    """One answer."""

    tokens: tuple[int, ...]
    first_token_s: float
    decode_s: float
    steps: int


SPECULATIVE_PEER = "mlx-lm with a second model"
Measure = Callable[[Sequence[int], int], Measured]
"""Answers (prompt ids, max_tokens) once."""


@dataclass
class Runs:
    """One system's figures, one entry a run over all prompts."""

    tokens_per_second: list[float] = field(default_factory=list)
    tokens_per_step: list[float] = field(default_factory=list)
    texts: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, answers: Sequence[Measured]) -> None:
        """Take one run."""
        tokens = sum(len(answer.tokens) - 1 for answer in answers)
        self.tokens_per_second.append(tokens / sum(answer.decode_s for answer in answers))
        self.tokens_per_step.append(tokens / sum(answer.steps for answer in answers))
        self.texts = [answer.tokens for answer in answers]


def peer_measure(peer: Peer) -> Measure:
    """Measure a peer."""

    def measure(prompt: Sequence[int], max_tokens: int) -> Measured:
        answer = peer.answer(prompt, max_tokens)
        return Measured(answer.tokens, answer.first_token_s, answer.decode_s, len(answer.step_tokens))

    return measure


@dataclass
class OurMode:
    """Measure one of our modes, and keep the times of its steps."""

    loaded: LoadedPair
    mode: Mode
    width: int | None = None
    """Rows of a verification; None takes the draft's block."""
    steps: list[DecodeStep] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """For the table."""
        return f"mirror-sd {self.mode}"

    def __call__(self, prompt: Sequence[int], max_tokens: int) -> Measured:
        """Read the whole prompt, then decode."""
        began_s = time.perf_counter()
        steps = decode_anew(
            self.loaded, prompt, self.mode, Limits(max_tokens, frozenset(), self.width or self.loaded.most_rows)
        )
        self.steps += steps[1:]
        self.step_s += [after.done_s - before.done_s for before, after in pairwise(steps)]
        first_s, last_s = steps[0].done_s, steps[-1].done_s
        return Measured(tokens_of(steps), first_s - began_s, last_s - first_s, len(steps) - 1)


def measure_in_turns(
    systems: dict[str, Measure], prompts: Sequence[Sequence[int]], runs: int, max_tokens: int
) -> dict[str, Runs]:
    """Every system answers every prompt in every run, the one that begins changing with each prompt."""
    results = {name: Runs() for name in systems}
    names = list(systems)
    for _ in range(runs):
        answers: dict[str, list[Measured]] = {name: [] for name in systems}
        for index, prompt in enumerate(prompts):
            first = index % len(names)
            for name in names[first:] + names[:first]:
                answers[name].append(systems[name](prompt, max_tokens))
        for name, result in results.items():
            result.add(answers[name])
    return results


def decode_rows(ours: Sequence[OurMode], results: dict[str, Runs]) -> list[Row]:
    """Tokens per second of all systems, then what steps of ours consist of; plain comes first in `ours`."""
    plain, *others = ours
    theirs = "mlx-lm stream_generate"
    rows = [
        row(f"{plain.name}: speed", "tok/s", _speed(results, plain.name), _speed(results, theirs), theirs),
        row(f"{theirs}: speed", "tok/s", _speed(results, theirs)),
    ]
    for mode in others:
        rows.append(
            row(f"{mode.name}: speed", "tok/s", _speed(results, mode.name), _speed(results, plain.name), plain.name)
        )
        rows.append(row(f"{mode.name}: tokens per step", "tokens", results[mode.name].tokens_per_step))
    if SPECULATIVE_PEER in results:
        peer = results[SPECULATIVE_PEER]
        rows.append(row(f"{SPECULATIVE_PEER}: speed", "tok/s", peer.tokens_per_second, _speed(results, theirs), theirs))
        rows.append(row(f"{SPECULATIVE_PEER}: tokens per step", "tokens", peer.tokens_per_step))
    if "dflash" in results:
        peer = results["dflash"]
        rows.append(row("dflash: speed", "tok/s", peer.tokens_per_second))
        for mode in others:
            mine = _speed(results, mode.name)
            rows.append(row(f"{mode.name}: speed", "tok/s", mine, peer.tokens_per_second, "dflash"))
        drafting = next(mode for mode in others if mode.mode != "lookup")
        accepted = results[drafting.name].tokens_per_step
        rows.append(row(f"{drafting.name}: tokens per step", "tokens", accepted, peer.tokens_per_step, "dflash"))
    return rows + [each for mode in ours for each in _step_rows(mode, plain)]


def _speed(results: dict[str, Runs], name: str) -> list[float]:
    return results[name].tokens_per_second


def _step_rows(mode: OurMode, plain: OurMode) -> list[Row]:
    """Medians and quartiles over all steps of all runs."""
    step_ms = [seconds * 1e3 for seconds in mode.step_s]
    shares = [100 * step.host_ms / (seconds * 1e3) for step, seconds in zip(mode.steps, mode.step_s, strict=True)]
    rows = [_over_steps(f"{mode.mode} step", "ms", step_ms)]
    if mode.mode != "plain":
        rows.append(_over_steps(f"{mode.mode} step: draft", "ms", [step.draft_ms for step in mode.steps]))
        rows.append(_over_steps(f"{mode.mode} step: verify", "ms", [step.verify_ms for step in mode.steps]))
        break_even = median(step_ms) / median(seconds * 1e3 for seconds in plain.step_s)
        rows.append(single(f"{mode.mode}: break-even", break_even, "tokens per step"))
    rows.append(_over_steps(f"{mode.mode} step: no device at work", "%", shares))
    return rows + _hit_rows(mode)


def _hit_rows(mode: OurMode) -> list[Row]:
    """Of blocks that were drafted beside a verification."""
    hits, hidden = hit_rate(mode.steps), hidden_on_hits(mode.steps)
    if hits is None:
        return []
    rows = [single(f"{mode.mode}: hits", hits, "of guessed steps")]
    for accepted, (hit, guessed) in hits_by_accepted(mode.steps).items():
        rows.append(single(f"{mode.mode}: hits after {accepted} accepted", hit / guessed, f"of {guessed} steps"))
    rows.append(single(f"{mode.mode}: overlap", overlap(mode.steps), "of the draft's time"))
    if hidden is not None:
        rows.append(single(f"{mode.mode}: hidden where it hit", hidden, "of the draft's time"))
    return rows


def _over_steps(name: str, unit: str, values: Sequence[float]) -> Row:
    ordered = sorted(values)
    return Row(name, median(ordered), unit, (ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4]))


def first_token_rows(
    ours: Measure, theirs: Measure, text: Sequence[int], lengths: Sequence[int], runs: int
) -> list[Row]:
    """Time to first token for prompts of several lengths, ours against mlx-lm's."""
    rows = []
    for length in lengths:
        prompt = [text[index % len(text)] for index in range(length)]
        pairs = [(ours(prompt, 2).first_token_s, theirs(prompt, 2).first_token_s) for _ in range(runs)]
        mine, other = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        rows.append(row(f"first token after {length} tokens", "s", mine, other, "mlx-lm stream_generate"))
    return rows
