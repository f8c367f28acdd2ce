"""Mode and width follow expected tokens a millisecond, with patience, and nothing is switched off for being slow."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from core.engine.controller import Choice, Controller, StepSeen
from core.engine.costs import Costs
from core.protocol import Mode

ROWS = 8
COSTS = Costs(
    verify_ms=tuple(65.0 + 5 * rows for rows in range(ROWS)),
    verify_ms_per_position=(0.0,) * ROWS,
    draft_ms={"gpu": 30.0, "ane": 10.0},
    head_ms=5.0,
    beside_ms=((32, 8.0),),
)


class Machine:
    """Decodes with a controller, in time that passes only here."""

    def __init__(self, costs: Costs = COSTS, slowness: dict[Mode, float] | None = None) -> None:
        self.costs = costs
        self.controller = Controller(costs)
        self.slowness = slowness or {}
        self.load = 1.0
        self.change_ms = 0.0
        """What a plain step behind another takes longer."""
        self.ms = 0.0
        self.tokens = 0
        self.choices: list[Choice] = []
        self.reasons: list[str] = []

    def live(
        self, steps: int, right: Callable[[], int], hit: Callable[[], bool] = lambda: False, depth: int = 0
    ) -> None:
        """So many steps, each with `right()` tokens that the draft says rightly."""
        self.choices = []
        for _ in range(steps):
            self._step(right(), hit(), depth)

    def _step(self, right: int, hits: bool, depth: int) -> None:
        choice = self.controller.choose(ROWS, depth)
        if self.controller.reason:
            self.reasons.append(self.controller.reason)
        accepted = min(right, choice.rows - 1)
        after_mirror = bool(self.choices) and self.choices[-1].mode == choice.mode == "mirror"
        ms = self.costs.step_ms(choice.mode, choice.rows, depth, float(after_mirror and hits))
        ms *= self.load * self.slowness.get(choice.mode, 1.0)
        if choice.mode == "plain" and self.choices and self.choices[-1].mode != "plain":
            ms += self.change_ms
        branch = None if not after_mirror else "hit" if hits else "miss"
        self.controller.observe(StepSeen(choice.mode, choice.rows, accepted, ms, depth, branch))
        self.choices.append(choice)
        self.ms += ms
        self.tokens += accepted + 1

    @property
    def modes(self) -> Counter[Mode]:
        return Counter(choice.mode for choice in self.choices)


def drawn(right_at: float, seed: int = 0) -> Callable[[], int]:
    """Tokens that are right one after the other, each with this probability."""
    rng = random.Random(seed)

    def right() -> int:
        count = 0
        while count < ROWS - 1 and rng.random() < right_at:
            count += 1
        return count

    return right


@pytest.mark.parametrize(
    ("draft_ms", "mode"), [({"gpu": 30.0, "ane": 10.0}, "ane"), ({"gpu": 30.0, "ane": 60.0}, "gpu")]
)
def test_the_cheaper_of_two_drafts_is_taken(draft_ms: dict[str, float], mode: Mode) -> None:
    machine = Machine(Costs(COSTS.verify_ms, COSTS.verify_ms_per_position, draft_ms))
    machine.live(400, lambda: 3)
    assert machine.modes[mode] > 360


@pytest.mark.parametrize("accepted", [1, 3, 7])
def test_the_width_is_what_is_accepted_and_one(accepted: int) -> None:
    machine = Machine()
    machine.live(200, lambda: accepted)
    assert [choice.rows for choice in machine.choices if choice.mode == "ane"][-1] == accepted + 1


@pytest.mark.parametrize("before", [0.0, 0.5])
def test_text_on_which_drafts_fail_is_decoded_at_most_three_percent_slower_than_plainly(before: float) -> None:
    machine = Machine()
    machine.live(300, drawn(before))
    machine.controller.begin_answer()
    began_ms = machine.ms
    machine.live(200, lambda: 0)
    assert machine.ms - began_ms <= 200 * COSTS.verify_ms[0] / 0.97
    assert machine.modes["plain"] > 160


@pytest.mark.parametrize("right_at", [0.05, 0.3, 0.45])
@pytest.mark.parametrize("verify_ms", [COSTS.verify_ms, (56.0, 80.0, 100.0, *[105.0] * 5)], ids=["flat", "steep"])
def test_the_first_answer_of_a_pair_is_at_most_three_percent_slower_than_plainly(
    right_at: float, verify_ms: tuple[float, ...]
) -> None:
    costs = Costs(verify_ms, COSTS.verify_ms_per_position, {"gpu": 60.0, "ane": 50.0}, 5.0, ((32, 8.0),))
    for seed in range(30):
        machine = Machine(costs)
        machine.live(200, drawn(right_at, seed))
        assert machine.ms <= machine.tokens * verify_ms[0] / 0.97


def test_what_a_plain_step_behind_a_drafted_one_makes_up_for_is_lost_by_drafting() -> None:
    machine = Machine()
    machine.change_ms = 100.0
    machine.live(200, lambda: 0)
    assert len(machine.modes) > 1
    assert machine.ms < 200 * COSTS.verify_ms[0] / 0.97


def test_an_answer_that_has_gained_may_lose_it_again() -> None:
    machine = Machine()
    machine.live(100, lambda: 5)
    machine.live(3, lambda: 0)
    assert machine.choices[-1].mode != "plain"


def test_a_draft_is_never_given_up() -> None:
    machine = Machine()
    machine.live(2000, lambda: 0)
    trials = [index for index, choice in enumerate(machine.choices) if choice.mode != "plain"]
    assert trials[-1] > 1700
    assert machine.modes["ane"] > 0
    assert machine.modes["gpu"] > 0
    machine.live(1000, lambda: 7)
    assert Counter(choice.mode for choice in machine.choices[-50:]).most_common(1)[0][0] == "ane"


def test_trials_of_other_modes_cost_little_where_a_draft_is_good() -> None:
    machine = Machine()
    machine.live(100, lambda: 3)
    began_ms, before = machine.ms, machine.tokens
    machine.live(1000, lambda: 3)
    best_ms = COSTS.step_ms("ane", 4, 0, 0.0) / 4
    assert machine.modes.keys() >= {"gpu", "ane", "mirror"}
    assert (machine.ms - began_ms) / (machine.tokens - before) <= best_ms * 1.03


def test_drafting_beside_the_verification_is_taken_where_outcomes_are_guessed_often_enough() -> None:
    costs = Costs(
        COSTS.verify_ms, COSTS.verify_ms_per_position, {"gpu": 60.0, "ane": 40.0}, head_ms=5.0, beside_ms=((32, 16.0),)
    )
    often, seldom = Machine(costs), Machine(costs)
    often.live(600, drawn(0.6), lambda: True)
    seldom.live(600, drawn(0.6), lambda: False)
    assert Counter(choice.mode for choice in often.choices[-200:])["mirror"] > 150
    assert Counter(choice.mode for choice in seldom.choices[-200:])["ane"] > 150


def test_changes_of_mind_have_a_reason_with_figures() -> None:
    machine = Machine()
    for right in (3, 0, 7):
        machine.live(1500, lambda right=right: right)  # type: ignore[misc]
    assert len(machine.reasons) == 3
    assert "1.00 tokens in a step of 65 ms, 15.4 a second" in machine.reasons[1]
    assert all("tokens in a step of" in reason and "as before" in reason for reason in machine.reasons)


def test_near_the_break_even_it_does_not_change_its_mind_at_every_step() -> None:
    machine = Machine()
    machine.live(400, drawn(0.17))
    assert len(machine.reasons) <= 8


def test_a_mode_that_is_slower_than_its_costs_said_is_left() -> None:
    machine = Machine(slowness={"ane": 3.0, "mirror": 3.0})
    machine.live(300, lambda: 7)
    assert machine.controller.mode == "gpu"


def test_a_busy_machine_slows_all_modes_and_hardly_changes_a_mind() -> None:
    machine = Machine()
    machine.live(200, lambda: 3)
    machine.reasons.clear()
    machine.load = 2.5
    machine.live(300, lambda: 3)
    assert len(machine.reasons) <= 2
    assert machine.controller.step_ms(Choice("plain", 1), 0) == pytest.approx(2.5 * COSTS.verify_ms[0], rel=0.2)


def test_what_depth_costs_is_known() -> None:
    deep = Costs(COSTS.verify_ms, (0.001, *[0.05] * (ROWS - 1)), {"ane": 10.0})
    shallow, far = Machine(deep), Machine(deep)
    shallow.live(300, drawn(0.5))
    far.live(300, drawn(0.5), depth=4000)
    assert shallow.controller.mode == "ane"
    assert far.controller.mode == "plain"


def test_a_mode_that_failed_is_not_chosen_again() -> None:
    machine = Machine()
    machine.live(50, lambda: 3)
    machine.controller.lose("ane")
    machine.controller.lose("mirror")
    machine.live(500, lambda: 3)
    assert machine.modes.keys() <= {"gpu", "plain"}
    assert machine.controller.mode == "gpu"


def test_without_room_for_a_proposal_the_step_is_plain() -> None:
    assert Controller(COSTS).choose(1, 0) == Choice("plain", 1)
    machine = Machine()
    machine.live(13, lambda: 3)
    assert machine.controller.choose(1, 0).mode == "plain"
    assert machine.controller.choose(3, 0).rows <= 3


LOOKED_UP = Costs(COSTS.verify_ms, COSTS.verify_ms_per_position, {})
"""Of a target without a draft."""


def told(right: int, judged: int, length: int = 3, steps: int = 12, costs: Costs = LOOKED_UP) -> Controller:
    """A controller that was told so of the repeats of this length."""
    controller = Controller(costs)
    for _ in range(steps):
        controller.observe_repeat(length, right, judged)
    return controller


def test_a_repeat_is_looked_up_at_once_and_the_wider_the_longer_it_is() -> None:
    short, long = (Controller(LOOKED_UP).choose(ROWS, 0, length) for length in (3, 8))
    assert short.mode == long.mode == "lookup"
    assert short.rows < long.rows == ROWS
    assert Controller(LOOKED_UP).choose(ROWS, 0) == Choice("plain", 1)


def test_repeats_that_do_not_go_on_are_left_alone_and_others_are_not() -> None:
    controller = told(0, 1)
    assert controller.choose(ROWS, 0, 3).mode == "plain"
    assert controller.choose(ROWS, 0, 8).mode == "lookup"
    assert controller.expects_repeats(ROWS, 0)
    for length in (5, 8):
        for _ in range(12):
            controller.observe_repeat(length, 0, 1)
    assert not controller.expects_repeats(ROWS, 0)


def test_plain_steps_teach_that_repeats_go_on_again() -> None:
    controller = told(0, 1)
    for _ in range(20):
        controller.observe_repeat(3, 1, 1)
    assert controller.choose(ROWS, 0, 3).mode == "lookup"


def test_what_repeats_did_says_nothing_of_drafts() -> None:
    machine = Machine()
    machine.live(100, lambda: 3)
    before = machine.controller.expected_tokens(Choice("ane", 4))
    for _ in range(50):
        machine.controller.observe_repeat(5, 0, 1)
        machine.controller.observe(StepSeen("lookup", 8, 0, 65.0, 0))
    assert machine.controller.expected_tokens(Choice("ane", 4)) == before
    assert machine.controller.choose(ROWS, 0, 5).mode != "lookup"


def test_a_repeat_is_not_looked_up_where_the_draft_gives_more() -> None:
    machine = Machine()
    machine.live(200, lambda: 7)
    for _ in range(30):
        machine.controller.observe_repeat(8, 2, 3)
    assert machine.controller.choose(ROWS, 0, 8).mode in ("ane", "mirror")


def test_without_room_for_a_proposal_nothing_is_looked_up() -> None:
    assert told(7, 7).choose(1, 0, 8) == Choice("plain", 1)


def test_what_drafts_have_lost_in_an_answer_does_not_keep_it_from_looking_up() -> None:
    controller = told(3, 3, length=8, costs=COSTS)
    controller.begin_answer()
    for _ in range(3):  # a trial that stalls
        controller.observe(StepSeen("ane", 4, 0, 130.0, 0))
    assert controller.choose(ROWS, 0, 8).mode == "lookup"
    assert controller.choose(ROWS, 0).mode == "plain"
    assert controller.expects_repeats(ROWS, 0)


def test_look_ups_that_keep_losing_end_where_drafts_have_lost_all_they_may() -> None:
    controller = told(3, 3, length=8, costs=COSTS)
    controller.begin_answer()
    for _ in range(3):
        controller.observe(StepSeen("ane", 4, 0, 130.0, 0))
    lost_ms = 0.0
    while (choice := controller.choose(ROWS, 0, 8)).mode == "lookup" and lost_ms < 1000:
        took_ms = COSTS.step_ms("lookup", choice.rows, 0, 0)
        controller.observe(StepSeen("lookup", choice.rows, 0, took_ms, 0))
        lost_ms += took_ms - COSTS.verify_ms[0]
    assert lost_ms < 3 * COSTS.verify_ms[0]
    assert not controller.expects_repeats(ROWS, 0)
