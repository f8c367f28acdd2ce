"""Projections: steps cost what a machine's figures say, synthetic drafts accept what was asked for, all is labelled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.bench import synthetic as made
from core.bench.machines import M4_MAX, M4_PRO, MACHINES, Cost
from core.bench.replay import Always, ReplayedStep, replay
from core.bench.simulate import LABEL, PROJECTED, project, sensitivities
from core.bench.simulate_report import costs_table, projected_rows, projection_table, scenarios, sensitivity_table
from core.bench.synthetic import ahead_ratio, chance_for, synthetic
from core.bench.trace import read_trace
from core.engine.anchors import RIGHT, UNTHOUGHT, Anchor, Answer, Guess
from core.engine.branches import Budget
from core.engine.controller import Choice
from core.protocol import Mode

PLAIN_MS, WIDE_MS = 10.0, 40.0
MACHINE = replace(
    M4_PRO,
    name="a machine",
    verify={1: Cost(PLAIN_MS, "said"), 16: Cost(WIDE_MS, "said")},
    gpu_draft=Cost(7.0, "said"),
    ane_draft=Cost(5.0, "said"),
    redraft=Cost(6.0, "said"),
    branch_draft=Cost(30.0, "said"),
    head=Cost(2.0, "said"),
    sync=Cost(1.0, "said"),
    beside=Cost(0.1, "said"),
)


@pytest.fixture(scope="module")
def kept():
    return read_trace()


@pytest.fixture
def short(monkeypatch):
    """Synthetic traces of a few answers."""
    monkeypatch.setattr(made, "_ANSWERS", 4)


def step(mode: Mode, rows: int, branch=None, branches: int = 0) -> ReplayedStep:
    return ReplayedStep(mode, rows, 0, 1, branch, branches)


@pytest.mark.parametrize(
    ("taken", "ms"),
    [
        (step("plain", 1), 10.0),
        (step("gpu", 16), 7 + 40 + 1),
        (step("ane", 16), 5 + 2 + 40 + 1),
        (step("gpu", 6), 7 + 20 + 1),  # on the line between 1 and 16 rows
        (step("mirror", 16), 5 + 2 + 40 + 1),  # the first, and nothing beside it
        (step("mirror", 16, "hit", 3), 2 + 44 + 1),  # the verification is the longer one, and slowed down
        (step("mirror", 16, "miss", 3), 6 + 2 + 44 + 1),
        (step("mirror", 2, "hit", 3), 2 + 30 + 1),  # the draft is
        (step("mirror", 16, "miss", 0), 6 + 2 + 40 + 1),
    ],
)
def test_a_step_costs_what_the_machine_says(taken, ms):
    assert MACHINE.step_ms(taken) == pytest.approx(ms)


def test_rows_between_known_ones_are_assumed_to_lie_on_a_line():
    assert MACHINE.varied("between", 1.25).verify_ms(6) == pytest.approx(25.0)
    assert MACHINE.varied("between", 1.25).verify_ms(16) == WIDE_MS


def test_plain_decoding_is_as_fast_as_its_passes_and_the_fastest_rows_are_taken(kept):
    assert project(kept, MACHINE, "plain").tokens_per_second == pytest.approx(1000 / PLAIN_MS)
    best = project(kept, MACHINE, "ane")
    others = [project(kept, MACHINE, "ane", rows).tokens_per_second for rows in kept.widths]
    assert best.tokens_per_second == max(others)
    assert best.rows == kept.widths[others.index(max(others))]


@pytest.mark.parametrize("tokens", [3.57, 5.47])
def test_a_synthetic_draft_gives_the_tokens_that_were_asked_for(kept, tokens):
    trace = synthetic(kept, tokens)
    (steps,) = [[step for answer in replay(trace, Always(Choice("ane", 16)), Budget.flat(0)) for step in answer]]
    assert sum(step.tokens for step in steps) / len(steps) == pytest.approx(tokens, rel=0.03)
    assert sum(chance_for(tokens, 16) ** k for k in range(16)) == pytest.approx(tokens)


@pytest.mark.usefixtures("short")
def test_a_synthetic_draft_is_always_the_same(kept):
    one, other = (project(synthetic(kept, 4.0), MACHINE, "mirror", 6) for _ in range(2))
    assert one == other


def test_blocks_drafted_ahead_lose_what_they_lose_in_the_recorded_trace(kept):
    right, wrong = Guess((RIGHT, RIGHT), (0.9, 0.9)), Guess((RIGHT, UNTHOUGHT), (0.9, 0.9))
    anchors = tuple(Anchor(right.ranks, right, {(2, 1): wrong}) for _ in range(4))
    trace = replace(kept, answers=(Answer((0,) * 12, False, anchors),))
    assert ahead_ratio(trace) == pytest.approx(0.5)
    assert 0.4 < ahead_ratio(kept) < 1.1


@pytest.mark.usefixtures("short")
def test_assumed_costs_are_varied_one_by_one_and_published_ones_are_not(kept):
    base = [project(kept, M4_MAX, mode) for mode in ("plain", "ane")]
    found = sensitivities(kept, M4_MAX, base)
    assumed = {name for name, cost in M4_MAX.costs.items() if cost.assumed}
    assert {each.name for each in found} == assumed
    assert {each.change for each in found} == {"-25%", "+25%"}
    cheaper, dearer = (each.tokens_per_second["ane"] for each in found if each.name == "head")
    assert cheaper > base[1].tokens_per_second > dearer


def test_every_machine_names_the_source_of_every_cost_and_of_what_was_accepted():
    for machine in MACHINES:
        assert all(cost.source and cost.value > 0 for cost in machine.costs.values())
        assert machine.acceptance
        table = costs_table(machine)
        assert table.count("published") + table.count("assumed here") >= len(machine.costs)


@pytest.mark.usefixtures("short")
def test_every_table_and_row_says_that_nothing_was_measured(kept):
    found = scenarios(kept, M4_PRO)
    assert len(found) == 1 + len(M4_PRO.acceptance)
    tables = [projection_table(found), sensitivity_table(found[1])]
    assert all(LABEL in table.splitlines()[0] for table in tables)
    assert "none was measured by us" in costs_table(M4_PRO)
    assert all(f"`{mode}`" in tables[0] for mode in PROJECTED)
    assert all(row.name.startswith(LABEL) and row.unit.endswith("projected") for row in projected_rows(found))
    assert "acceptance after a hit" in tables[1]
