"""Replays held against reality: real answers of the pair here, and what their own costs say that they should take.

Costs are taken twice: from all answers, so that the error is what the cost model leaves out; and from every other
answer and judged on the rest, so that no answer explains itself and a machine that is not quiet shows as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from core.bench.machines import Cost, Machine
from core.bench.replay import Always, Plan, ReplayedStep, replay
from core.bench.trace import Trace, weights_sha256
from core.engine.branches import Budget, Outcomes
from core.engine.controller import Choice, Controller
from core.engine.decode import DecodeStep, Limits
from core.engine.loader import LoadedPair
from core.engine.measure import decode_anew
from core.engine.prompt import render_prompt
from core.engine.spans import total_s
from core.errors import BadRequest
from core.protocol import ChatMessage, Mode

_HERE = "measured here"


@dataclass(frozen=True)
class Checked:
    """One mode: real and replayed."""

    mode: Mode
    measured_tokens_per_second: float
    replayed_tokens_per_second: float
    measured_tokens_per_step: float
    replayed_tokens_per_step: float
    split_error: float
    """Of the speed replayed with costs of other answers, as a share of the measured one."""

    @property
    def error(self) -> float:
        """Of the replayed speed, as a share of the measured one."""
        return self.replayed_tokens_per_second / self.measured_tokens_per_second - 1


@dataclass(frozen=True)
class _Timed:
    """A real step, with the milliseconds since the step before."""

    step: DecodeStep
    ms: float


def check_replay(
    loaded: LoadedPair, trace: Trace, prompts: int, rows: int, progress: Callable[[str], None] = lambda _what: None
) -> list[Checked]:
    """Decode the trace's first `prompts` for real in every mode, in turns, and replay them with the times they took.

    A trace says nothing of prompt lookup: that mode is left out, and `auto` is replayed without it.
    Raises `BadRequest` where the trace is of another draft, or has other texts than the pair gives.
    """
    if loaded.pair.draft is None or weights_sha256(Path(loaded.pair.draft)) != trace.draft_sha256:
        raise BadRequest(f"The trace is not of the draft of {loaded.pair.name}.", "Record one with --record FILE.")
    if prompts < 2:
        raise BadRequest("A check needs at least two prompts: one to learn costs from, one to judge them on.")
    used = replace(trace, prompts=trace.prompts[:prompts], answers=trace.answers[:prompts])
    real: dict[Mode, list[list[_Timed]]] = {mode: [] for mode in loaded.modes if mode != "lookup"}
    for index, prompt in enumerate(used.prompts):
        for mode in real:
            progress(f"prompt {index + 1} of {len(used.prompts)}, mode {mode}")
            real[mode].append(_decode(loaded, used, index, prompt, mode, rows))
    assert loaded.programs is not None
    budget = loaded.programs.budget
    rest = replace(used, prompts=used.prompts[1::2], answers=used.answers[1::2])
    all_costs = _machines(real, rows)
    half_costs = _machines({mode: answers[::2] for mode, answers in real.items()}, rows)
    return [
        _checked(
            mode,
            _figures(answers),
            _replayed(mode, used, all_costs, rows, budget),
            _replayed(mode, rest, half_costs, rows, budget)[0] / _figures(answers[1::2])[0] - 1,
        )
        for mode, answers in real.items()
    ]


def _decode(loaded: LoadedPair, trace: Trace, index: int, prompt: str, mode: Mode, rows: int) -> list[_Timed]:
    """The steps that a replay has too."""
    answer = trace.answers[index]
    assert loaded.programs is not None
    loaded.programs.outcomes = Outcomes()
    ids = render_prompt(loaded.tokenizer, [ChatMessage("user", prompt)]).ids
    steps = decode_anew(loaded, ids, mode, Limits(len(answer.tokens), loaded.tokenizer.eos_ids, rows))
    if tuple(token for step in steps for token in step.tokens) != answer.tokens:
        raise BadRequest(
            f"The pair answers another text than the trace has: {prompt[:40]!r}.",
            "Record the trace anew with --record.",
        )
    timed = [_Timed(step, (step.done_s - before.done_s) * 1e3) for before, step in pairwise(steps)]
    known = 0
    for count, each in enumerate(timed):
        if known >= len(answer.anchors):
            return timed[:count]
        known += len(each.step.tokens)
    return timed


def _machines(real: dict[Mode, list[list[_Timed]]], rows: int) -> dict[Mode, Machine]:
    """By mode: what its steps cost."""
    plain = [timed for answer in real["plain"] for timed in answer]
    return {
        mode: _machine(plain, [timed for answer in answers for timed in answer], rows)
        for mode, answers in real.items()
        if mode != "auto"
    }


def _machine(plain: Sequence[_Timed], steps: Sequence[_Timed], rows: int) -> Machine:
    """What steps of a mode cost, by their own spans."""
    verifications = [each.step.verify_ms for each in steps if len(each.step.proposals) + 1 == rows]
    beside, alone = [], []
    for each in steps:
        spans = list(each.step.draft_busy)
        if each.step.branch is not None:
            beside.append(total_s(spans[:1]) * 1e3)
            spans = spans[1:]
        if spans:
            alone.append(total_s(spans) * 1e3)
    draft = _mean(alone)
    known = {1: _mean(each.ms for each in plain), rows: _mean(verifications)}
    return Machine(
        name=_HERE,
        verify=known,
        between=Cost(1.0, _HERE),
        gpu_draft=draft,
        ane_draft=draft,
        redraft=draft,
        branch_draft=_mean(beside),
        head=_mean(total_s(each.step.target_busy[:-1]) * 1e3 for each in steps),
        sync=_mean(each.step.host_ms for each in steps),
        beside=Cost(0.0, "verifications were measured with the draft beside them"),
    )


def _mean(values: Iterable[float]) -> Cost:
    known = list(values)
    return Cost(fmean(known) if known else 0.0, _HERE)


def _figures(answers: Sequence[Sequence[_Timed]]) -> tuple[float, float]:
    """Tokens a second and a step."""
    timed = [each for answer in answers for each in answer]
    tokens = sum(len(each.step.tokens) for each in timed)
    return tokens / sum(each.ms for each in timed) * 1e3, tokens / len(timed)


def _replayed(
    mode: Mode, trace: Trace, machines: dict[Mode, Machine], rows: int, budget: Budget
) -> tuple[float, float]:
    """Tokens a second and a step. The engine's averages begin anew with every answer, as they did in the real ones."""
    plan: Plan = Always(Choice(mode, 1 if mode == "plain" else rows))
    if mode == "auto":
        both = replace(machines["ane"], gpu_draft=machines["gpu"].gpu_draft)
        plan = Controller(both.controller_costs(("gpu", "ane"), rows))

    def step_ms(step: ReplayedStep) -> float:
        return machines[step.mode].step_ms(step)

    steps = [
        step
        for answer in trace.answers
        for taken in replay(replace(trace, answers=(answer,)), plan, budget, step_ms)
        for step in taken
    ]
    tokens = sum(step.tokens for step in steps)
    return tokens / sum(map(step_ms, steps)) * 1e3, tokens / len(steps)


def _checked(mode: Mode, real: tuple[float, float], replayed: tuple[float, float], split_error: float) -> Checked:
    return Checked(mode, real[0], replayed[0], real[1], replayed[1], split_error)
