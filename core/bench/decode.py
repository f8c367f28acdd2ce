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
from core.bench.rows import Row, row
from core.engine.decode import DecodeStep, Limits
from core.engine.loader import LoadedPair
from core.engine.measure import decode_anew
from core.protocol import Mode


@dataclass(frozen=True)
class Measured:
    """One answer."""

    tokens: tuple[int, ...]
    first_token_s: float
    decode_s: float
    steps: int


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
    steps: list[DecodeStep] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)

    def __call__(self, prompt: Sequence[int], max_tokens: int) -> Measured:
        """Read the whole prompt, then decode."""
        began_s = time.perf_counter()
        steps = decode_anew(self.loaded, prompt, self.mode, Limits(max_tokens, frozenset(), self.loaded.block_size))
        self.steps += steps[1:]
        self.step_s += [after.done_s - before.done_s for before, after in pairwise(steps)]
        first_s, last_s = steps[0].done_s, steps[-1].done_s
        tokens = tuple(token for step in steps for token in step.tokens)
        return Measured(tokens, first_s - began_s, last_s - first_s, len(steps) - 1)


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


def decode_rows(plain: OurMode, gpu: OurMode, results: dict[str, Runs]) -> list[Row]:
    """Tokens per second of all systems, then what a step of ours consists of."""
    ours, theirs = "mirror-sd plain", "mlx-lm stream_generate"
    rows = [
        row(f"{ours}: speed", "tok/s", results[ours].tokens_per_second, results[theirs].tokens_per_second, theirs),
        row(f"{theirs}: speed", "tok/s", results[theirs].tokens_per_second),
        row("mirror-sd gpu: speed", "tok/s", _speed(results, "mirror-sd gpu"), _speed(results, ours), ours),
        row("mirror-sd gpu: tokens per step", "tokens", results["mirror-sd gpu"].tokens_per_step),
    ]
    if "dflash" in results:
        rows += [
            row("mirror-sd gpu: speed", "tok/s", _speed(results, "mirror-sd gpu"), _speed(results, "dflash"), "dflash"),
            row("dflash: speed", "tok/s", _speed(results, "dflash")),
            row(
                "mirror-sd gpu: tokens per step",
                "tokens",
                results["mirror-sd gpu"].tokens_per_step,
                results["dflash"].tokens_per_step,
                "dflash",
            ),
        ]
    return [*rows, *_step_rows(plain, gpu)]


def _speed(results: dict[str, Runs], name: str) -> list[float]:
    return results[name].tokens_per_second


def _step_rows(plain: OurMode, gpu: OurMode) -> list[Row]:
    """Medians and quartiles over all steps of all runs."""
    plain_ms = [seconds * 1e3 for seconds in plain.step_s]
    gpu_ms = [seconds * 1e3 for seconds in gpu.step_s]
    draft_ms = [step.draft_ms for step in gpu.steps if step.draft_busy]
    verify_ms = [step.verify_ms for step in gpu.steps]
    shares = [100 * step.host_ms / (seconds * 1e3) for step, seconds in zip(gpu.steps, gpu.step_s, strict=True)]
    plain_shares = [100 * s.host_ms / (seconds * 1e3) for s, seconds in zip(plain.steps, plain.step_s, strict=True)]
    return [
        _over_steps("plain step", "ms", plain_ms),
        _over_steps("gpu step", "ms", gpu_ms),
        _over_steps("gpu step: draft", "ms", draft_ms),
        _over_steps("gpu step: verify", "ms", verify_ms),
        _over_steps("gpu step: no device at work", "%", shares),
        _over_steps("plain step: no device at work", "%", plain_shares),
        Row("break-even", median(gpu_ms) / median(plain_ms), "tokens per step", (0.0, 0.0)),
    ]


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
