"""Hits, overlap and hidden time of steps that were made up."""

from __future__ import annotations

import dataclasses

import pytest

from core.engine.decode import DecodeStep
from core.engine.step_figures import hidden_on_hits, hit_rate, hits_by_accepted, lost_share, overlap


def step(verify, draft=(), branch=None, accepted=0):
    return DecodeStep(
        tokens=(1,) * (accepted + 1), proposals=(1,) * 3, accepted=accepted, mode="mirror", draft_busy=draft,
        target_busy=(verify,), branch=branch, branches=2 if branch else 0, rollback_ms=0.0, host_ms=0.0,
        context_used=9, finish=None,
    )  # fmt: skip


STEPS = [
    step((0.0, 1.0), accepted=2),
    step((1.1, 2.0), ((0.2, 1.1),), "hit", accepted=0),  # a ninth of its draft was waited for
    step((2.5, 3.5), ((1.1, 1.9), (2.0, 2.5)), "miss", accepted=0),
    step((3.5, 4.0), ((2.6, 3.4),), "hit", accepted=1),
]


def test_the_hit_rate_counts_guessed_steps_only():
    assert hit_rate(STEPS) == pytest.approx(2 / 3)
    assert hit_rate(STEPS[:1]) is None


def test_hits_are_told_by_what_the_step_before_accepted():
    assert hits_by_accepted(STEPS) == {0: (1, 2), 2: (1, 1)}


def test_overlap_is_the_share_of_the_drafts_time_that_lay_beside_the_targets():
    assert overlap(STEPS) == pytest.approx((0.8 + 0.8 + 0.8) / (0.9 + 0.8 + 0.5 + 0.8))
    assert overlap(STEPS[:1]) == 0.0


def test_what_is_hidden_counts_hits_only():
    assert hidden_on_hits(STEPS) == pytest.approx((0.8 + 0.8) / (0.9 + 0.8))
    assert hidden_on_hits(STEPS[:1]) is None


def plain_step(done_s):
    return dataclasses.replace(step((0.0, done_s)), proposals=(), mode="plain")


def test_what_drafting_lost_is_told_by_the_answers_own_plain_steps():
    plain = [plain_step(10.0 * number) for number in range(5)]
    assert lost_share(plain) == 0
    assert lost_share([*plain, step((50.0, 55.0))]) == pytest.approx(5 / 55)
    assert lost_share([*plain, step((50.0, 55.0), accepted=2)]) == pytest.approx(-15 / 55)
    assert lost_share([plain_step(0.0), step((1.0, 9.0))]) == 0
