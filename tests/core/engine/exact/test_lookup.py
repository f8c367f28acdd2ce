"""Tier A for prompt lookup: whatever it proposes, the text is the plain one."""

from __future__ import annotations

import pytest

from core.engine.source_lookup import LookupSource
from helpers.decoding import run, three_tokens_only
from helpers.families import KINDS, family_target
from helpers.tiny import BLOCK


@pytest.mark.parametrize("family", KINDS)
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
