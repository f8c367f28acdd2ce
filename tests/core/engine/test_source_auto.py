"""Auto decodes what plain decoding does, with real costs, through every change of mind."""

from __future__ import annotations

import pytest

from core.engine.calibrate import measure_costs
from core.engine.controller import Controller, Costs
from core.engine.decode import Limits, decode
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.source_auto import AutoSource
from core.engine.sources import SerialSource
from core.protocol import GenerateOptions
from helpers.decoding import run
from helpers.programs import TinyPrograms
from helpers.tiny import BLOCK

PROMPT = [3, 14, 15, 9, 26]
TOKENS = 80


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    programs = TinyPrograms(tmp_path_factory.mktemp("programs") / "draft")
    yield programs
    programs.thread.close()


def answer(tiny, controller, options):
    session, sampler = Session(tiny.target, tiny.in_mlx), Sampler(options, tiny.target.vocab_size)
    for _ in session.prefill(PROMPT, lambda: False):
        pass
    makers = {"gpu": lambda: SerialSource(session, tiny.in_mlx, sampler), "ane": lambda: tiny.ane(session, sampler)}
    changes = []
    source = AutoSource(
        session, BLOCK, controller, lambda mode: makers[mode](), lambda mode, reason: changes.append((mode, reason))
    )
    limits = Limits(TOKENS, frozenset(), BLOCK)
    return session, list(decode(session, PROMPT[-1], source, sampler, limits)), changes


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "draft_ms",
    [{"gpu": 1.0, "ane": 2.0}, {"gpu": 2.0, "ane": 1.0}, {"gpu": 1e4, "ane": 1e4}],
    ids=["gpu", "ane", "plain"],
)
def test_the_text_is_that_of_plain_decoding(tiny, temperature, draft_ms):
    plain = run(tiny.target, tiny.in_mlx, PROMPT, max_tokens=TOKENS, temperature=temperature, seed=3)
    controller = Controller(Costs(tuple(10.0 + rows for rows in range(BLOCK)), draft_ms))
    session, steps, _ = answer(tiny, controller, GenerateOptions(temperature=temperature, seed=3))
    assert [token for step in steps for token in step.tokens] == plain.tokens
    assert session.tokens == plain.session.tokens
    assert session.context.length == session.length


def test_steps_say_the_mode_that_they_had_and_changes_their_reason(tiny):
    controller = Controller(Costs((10.0,) * BLOCK, {"ane": 1.0}))
    _, steps, changes = answer(tiny, controller, GenerateOptions())
    assert steps[1].mode == "ane"
    assert changes[0][0] == "ane"
    assert {step.mode for step in steps} <= {"plain", "ane"}
    assert all((step.mode == "plain") == (not step.proposals) for step in steps)


def test_costs_are_measured_for_every_width_and_drafter(tiny):
    costs = measure_costs(tiny.target, {"gpu": tiny.in_mlx, "ane": tiny.drafter}, BLOCK)
    assert len(costs.verify_ms) == BLOCK
    assert list(costs.verify_ms) == sorted(costs.verify_ms)
    assert min(costs.verify_ms) > 0
    assert costs.draft_ms.keys() == {"gpu", "ane"}
    assert min(costs.draft_ms.values()) > 0
