"""Projections: what decoding would give on machines that are not here, from traces of real answers and stated costs.

Nothing that comes out of here is a measurement, and every table says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.bench.machines import Machine, Published
from core.bench.replay import Always, Plan, ReplayedStep, replay
from core.bench.synthetic import synthetic
from core.bench.trace import Trace
from core.engine.branches import Budget
from core.engine.controller import Choice, Controller
from core.engine.step_figures import hit_rate
from core.protocol import Mode

LABEL = "projection, not measured"
PROJECTED: tuple[Mode, ...] = ("plain", "gpu", "ane", "mirror", "auto")
_DRAFTING: tuple[Mode, ...] = ("gpu", "ane", "mirror")
_VARIATION = 0.25


@dataclass(frozen=True)
class Projection:
    """One mode on one machine."""

    mode: Mode
    rows: int | None
    """Of a verification; None where they change."""
    tokens_per_second: float
    tokens_per_step: float
    hit_rate: float | None
    """Of steps whose outcome was guessed; None where none was."""


def project(trace: Trace, machine: Machine, mode: Mode, rows: int | None = None) -> Projection:
    """One mode; at the number of rows that is the fastest of all, unless `rows` says which. `auto` takes its own."""
    if mode == "auto":
        return _projection(trace, machine, "auto", None)
    widths = [1] if mode == "plain" else [rows] if rows else list(trace.widths)
    tried = [_projection(trace, machine, mode, width) for width in widths]
    return max(tried, key=lambda each: each.tokens_per_second)


def _projection(trace: Trace, machine: Machine, mode: Mode, rows: int | None) -> Projection:
    costs = machine.controller_costs(_DRAFTING, trace.block)
    plan: Plan = Controller(costs) if rows is None else Always(Choice(mode, rows))
    steps = [step for answer in replay(trace, plan, Budget.flat(machine.columns), machine.step_ms) for step in answer]
    return summary(mode, rows, steps, sum(map(machine.step_ms, steps)))


def summary(mode: Mode, rows: int | None, steps: Sequence[ReplayedStep], total_ms: float) -> Projection:
    """What steps come to that took so long together."""
    tokens = sum(step.tokens for step in steps)
    return Projection(mode, rows, tokens / total_ms * 1e3, tokens / len(steps), hit_rate(steps))


# --------------------------------------------------------------- sensitivity


@dataclass(frozen=True)
class Sensitivity:
    """What an assumption decides."""

    name: str
    change: str
    tokens_per_second: dict[Mode, float]


def sensitivities(trace: Trace, machine: Machine, base: Sequence[Projection]) -> list[Sensitivity]:
    """Every assumed cost a quarter less and a quarter more, at the rows of `base`."""
    return [
        Sensitivity(name, f"{change:+.0%}", _speeds(trace, machine.varied(name, 1 + change), base))
        for name, cost in machine.costs.items()
        if cost.assumed
        for change in (-_VARIATION, _VARIATION)
    ]


def worse_after_hits(trace: Trace, published: Published, machine: Machine, base: Sequence[Projection]) -> Sensitivity:
    """Blocks drafted ahead are right a quarter less often than `synthetic` says."""
    worse = synthetic(trace, published.tokens, after_hits=1 - _VARIATION)
    return Sensitivity("acceptance after a hit", f"{-_VARIATION:+.0%}", _speeds(worse, machine, base))


def _speeds(trace: Trace, machine: Machine, base: Sequence[Projection]) -> dict[Mode, float]:
    return {each.mode: project(trace, machine, each.mode, each.rows).tokens_per_second for each in base}
