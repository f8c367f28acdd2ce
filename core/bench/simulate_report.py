"""Projections as tables: every one says that it is none of measurements, and where its costs come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.bench.machines import Machine, Published
from core.bench.replay_check import Checked
from core.bench.rows import Row
from core.bench.simulate import LABEL, PROJECTED, Projection, Sensitivity, project, sensitivities, worse_after_hits
from core.bench.synthetic import synthetic
from core.bench.trace import Trace


@dataclass(frozen=True)
class Scenario:
    """All modes on a machine with one acceptance."""

    machine: Machine
    acceptance: str
    projections: tuple[Projection, ...]
    sensitivities: tuple[Sensitivity, ...] = ()


def scenarios(trace: Trace, machine: Machine) -> list[Scenario]:
    """The recorded acceptance, then those that were published, the first of them with what the assumptions decide."""
    found = [Scenario(machine, f"recorded: {trace.pair}", _all_modes(trace, machine))]
    for published in machine.acceptance:
        made = synthetic(trace, published.tokens)
        projections = _all_modes(made, machine)
        varied: list[Sensitivity] = []
        if published is machine.acceptance[0]:
            varied = sensitivities(made, machine, projections)
            varied.append(worse_after_hits(trace, published, machine, projections))
        found.append(Scenario(machine, _acceptance(published), projections, tuple(varied)))
    return found


def _all_modes(trace: Trace, machine: Machine) -> tuple[Projection, ...]:
    return tuple(project(trace, machine, mode) for mode in PROJECTED)


def _acceptance(published: Published) -> str:
    return f"synthetic: {published.tokens} tokens a step of 16 rows ({published.source})"


def projection_table(found: Sequence[Scenario]) -> str:
    """All scenarios of one machine."""
    lines = [
        f"{found[0].machine.name}: {LABEL}",
        "",
        "| acceptance | mode | rows | tok/s, projected | against plain | tokens a step | hits |",
        "|---|---|---|---|---|---|---|",
    ]
    for scenario in found:
        plain = scenario.projections[0]
        for each in scenario.projections:
            rows = "changing" if each.rows is None else str(each.rows)
            hits = "" if each.hit_rate is None else f"{each.hit_rate:.0%}"
            ratio = each.tokens_per_second / plain.tokens_per_second
            acceptance = scenario.acceptance if each is plain else ""
            lines.append(
                f"| {acceptance} | `{each.mode}` | {rows} | {each.tokens_per_second:.1f} | {ratio:.2f}x "
                f"| {each.tokens_per_step:.2f} | {hits} |"
            )
    return "\n".join(lines)


def costs_table(machine: Machine) -> str:
    """Every cost of a machine with its source."""
    lines = [
        f"Costs of {machine.name}, as others published them; none was measured by us",
        "",
        "| cost | value | known or assumed | source |",
        "|---|---|---|---|",
    ]
    units = {"beside": "of the verification", "between": "of the line"}
    for name, cost in machine.costs.items():
        kind = "assumed here" if cost.assumed else "published"
        lines.append(f"| {name.replace('_', ' ')} | {cost.value:g} {units.get(name, 'ms')} | {kind} | {cost.source} |")
    return "\n".join(lines)


def sensitivity_table(scenario: Scenario) -> str:
    """What the assumptions decide: tokens per second where one of them is wrong by a quarter."""
    modes = [each.mode for each in scenario.projections]
    lines = [
        f"{scenario.machine.name}, {scenario.acceptance}, were an assumption wrong: tok/s, {LABEL}",
        "",
        f"| assumption | change | {' | '.join(f'`{mode}`' for mode in modes)} |",
        f"|---|---|{'---|' * len(modes)}",
    ]
    base = [f"{each.tokens_per_second:.1f}" for each in scenario.projections]
    lines.append(f"| none | | {' | '.join(base)} |")
    for each in scenario.sensitivities:
        speeds = " | ".join(f"{each.tokens_per_second[mode]:.1f}" for mode in modes)
        lines.append(f"| {each.name.replace('_', ' ')} | {each.change} | {speeds} |")
    return "\n".join(lines)


def projected_rows(found: Sequence[Scenario]) -> list[Row]:
    """The projections, for a file."""
    rows = []
    for scenario in found:
        plain = scenario.projections[0].tokens_per_second
        for each in scenario.projections:
            speed = each.tokens_per_second
            name = f"{LABEL}: {scenario.machine.name}, {scenario.acceptance}, {each.mode}"
            rows.append(Row(name, speed, "tok/s, projected", (speed, speed), "plain", speed / plain))
    return rows


def check_table(checked: Sequence[Checked]) -> str:
    """Replays against reality."""
    lines = [
        "| mode | tok/s, measured here | tok/s, replayed with costs measured here | error of the replay "
        "| error with costs of other answers | tokens a step, measured | tokens a step, replayed |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{each.mode}` | {each.measured_tokens_per_second:.2f} | {each.replayed_tokens_per_second:.2f} "
        f"| {each.error:+.1%} | {each.split_error:+.1%} "
        f"| {each.measured_tokens_per_step:.3f} | {each.replayed_tokens_per_step:.3f} |"
        for each in checked
    ]
    return "\n".join(lines)


def checked_rows(checked: Sequence[Checked]) -> list[Row]:
    """The same, for a file."""
    rows = []
    for each in checked:
        measured, replayed = each.measured_tokens_per_second, each.replayed_tokens_per_second
        rows.append(Row(f"{each.mode}: measured", measured, "tok/s", (measured, measured)))
        rows.append(
            Row(f"{each.mode}: replayed", replayed, "tok/s", (replayed, replayed), "measured", replayed / measured)
        )
    return rows
