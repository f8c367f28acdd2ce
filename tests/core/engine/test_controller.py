"""Mode and width follow expected tokens a millisecond, with patience, and nothing is switched off for good."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from core.engine.controller import Choice, Controller, Costs

LINEAR = tuple(50.0 + 5 * rows for rows in range(8))


def controller(ane_ms: float = 10.0, gpu_ms: float = 30.0) -> Controller:
    return Controller(Costs(LINEAR, {"gpu": gpu_ms, "ane": ane_ms}))


def live(made: Controller, steps: int, accepted: int, slowness: float = 1.0) -> list[Choice]:
    """Steps whose drafts have exactly so many right tokens, and take `slowness` times what the costs say."""
    choices = []
    for _ in range(steps):
        choice = made.choose(8)
        verified = choice.rows - 1
        draft_ms = {"plain": 0.0, "gpu": 30.0, "ane": 10.0}[choice.mode]
        step_ms = slowness * (draft_ms + LINEAR[choice.rows - 1])
        made.observe(choice, verified, min(accepted, verified), step_ms)
        choices.append(choice)
    return choices


def test_the_cheaper_of_two_drafts_is_taken() -> None:
    assert {choice.mode for choice in live(controller(), 50, 3)} == {"ane"}
    assert {choice.mode for choice in live(controller(ane_ms=60.0), 50, 3)} == {"gpu"}


@pytest.mark.parametrize(("accepted", "rows"), [(1, 2), (3, 4), (7, 8)])
def test_the_width_is_what_is_accepted_and_one(accepted: int, rows: int) -> None:
    assert live(controller(), 200, accepted)[-1].rows == rows


def test_a_draft_that_is_never_right_is_tried_ever_more_rarely_but_always_again() -> None:
    modes = [choice.mode for choice in live(controller(), 600, 0)]
    trials = [step for step, mode in enumerate(modes) if mode != "plain"][20:]
    gaps = [after - before for before, after in pairwise(trials)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == 97
    assert Counter(modes)["plain"] > 500


def test_what_trials_cost_stays_below_three_percent_of_plain_decoding() -> None:
    made = controller()
    live(made, 100, 0)
    choices = live(made, 400, 0)
    spent = sum(made.step_ms(choice) for choice in choices)
    assert spent <= 1.03 * len(choices) * made.step_ms(Choice("plain", 1))


def test_a_draft_that_becomes_right_is_taken_again() -> None:
    made = controller()
    assert live(made, 300, 0)[-1].mode == "plain"
    assert live(made, 2000, 7)[-1].mode == "ane"


def test_every_change_of_mind_has_a_reason_and_nothing_else_has() -> None:
    made, modes, reasons = controller(), ["plain"], []
    for accepted in (3, 0, 7):
        for _ in range(1500):
            live(made, 1, accepted)
            if made.reason:
                reasons.append(made.reason)
                modes.append(made._mode)
    assert modes == ["plain", "ane", "plain", "ane"]
    assert "slower" in reasons[1]
    assert "faster" in reasons[2]
    assert all("tokens a step" in reason for reason in reasons)


def test_near_the_break_even_it_does_not_change_its_mind_at_every_step() -> None:
    made, changes = controller(), 0
    for step in range(400):
        choice = made.choose(8)
        changes += bool(made.reason)
        verified = choice.rows - 1
        made.observe(choice, verified, min(step % 3 == 0, verified), made.step_ms(choice))
    assert changes <= 4


def test_a_mode_that_is_slower_than_its_costs_said_is_left() -> None:
    made = controller()
    for _ in range(300):
        choice = made.choose(8)
        slowness = 4.0 if choice.mode == "ane" else 1.0
        draft_ms = {"plain": 0.0, "gpu": 30.0, "ane": 10.0}[choice.mode]
        made.observe(choice, choice.rows - 1, min(7, choice.rows - 1), slowness * (draft_ms + LINEAR[choice.rows - 1]))
    assert choice.mode == "gpu"


def test_without_room_for_a_proposal_the_step_is_plain() -> None:
    assert controller().choose(1) == Choice("plain", 1)
    assert Controller(Costs(LINEAR, {})).choose(8) == Choice("plain", 1)
