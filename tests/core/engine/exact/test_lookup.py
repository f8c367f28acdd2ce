"""Tier A for prompt lookup: whatever it proposes, the text is the plain one."""

from __future__ import annotations

import pytest

from core.engine.controller import Controller
from core.engine.costs import Costs
from core.engine.source_auto import AutoSource
from core.engine.source_lookup import LookupSource
from helpers.decoding import run, three_tokens_only
from helpers.families import DRAFTED, KINDS, family_target
from helpers.tiny import BLOCK


@pytest.mark.parametrize("family", sorted({*KINDS, *DRAFTED}))
def test_lookup_gives_the_plain_text(family, monkeypatch):
    three_tokens_only(monkeypatch)
    target, steps = family_target(family), []
    for options in ({"temperature": 0.0}, {"temperature": 2.0, "seed": 1}, {"temperature": 2.0, "seed": 2}):
        plain = run(target, None, [0, 1, 2, 2, 1], max_tokens=30, **options)
        looked_up = run(
            target, None, [0, 1, 2, 2, 1], lambda session, _: LookupSource(session, BLOCK), max_tokens=30, **options
        )
        assert looked_up.tokens == plain.tokens
        steps += looked_up.steps
    assert any(step.accepted for step in steps)
    assert any(step.accepted < len(step.proposals) for step in steps)


@pytest.mark.parametrize("family", KINDS)
def test_auto_that_looks_up_at_some_steps_gives_the_plain_text(family, monkeypatch):
    three_tokens_only(monkeypatch)
    monkeypatch.setattr("core.engine.sliding_cache.SPARE_ROWS", 2)
    monkeypatch.setattr("core.engine.sliding_cache._GROWTH_ROWS", 4)  # windows are moved often
    target, modes = family_target(family), set()
    controller = Controller(Costs(tuple(10.0 + rows for rows in range(BLOCK)), (0.0,) * BLOCK, {}))
    for seed in range(4):
        options = {"temperature": 2.0 * (seed > 0), "seed": seed, "max_tokens": 30}
        plain = run(target, None, [0, 1, 2, 2, 1], **options)
        auto = run(
            target,
            None,
            [0, 1, 2, 2, 1],
            lambda session, _: AutoSource(session, BLOCK, controller, None, lambda *_: None),
            **options,
        )
        assert auto.tokens == plain.tokens
        assert auto.session.tokens == plain.session.tokens
        modes |= {step.mode for step in auto.steps}
    assert modes == {"plain", "lookup"}
