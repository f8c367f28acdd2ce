"""Auto decodes what plain decoding does, with real costs, through every change of mind."""

from __future__ import annotations

import pytest

import ane
from core.engine.controller import Controller
from core.engine.costs import Costs
from core.engine.decode import Limits, decode
from core.engine.fallback import FallbackSource
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.source_auto import AutoSource
from core.engine.source_lookup import Repeat
from core.engine.sources import SerialSource
from core.protocol import GenerateOptions
from helpers.decoding import run, three_tokens_only
from helpers.tiny import BLOCK, VOCABULARY, tiny_target

PROMPT = [3, 14, 15, 9, 26]
TOKENS = 80


def costs(draft_ms, beside_ms=()):
    return Costs(tuple(10.0 + rows / 10 for rows in range(BLOCK)), (0.0,) * BLOCK, draft_ms, beside_ms=beside_ms)


def broken(*_):
    raise ane.AneError("The Neural Engine is gone.")


def plain_tokens(tiny):
    return run(tiny.target, tiny.in_mlx, PROMPT, max_tokens=TOKENS).tokens


def answer(tiny, controller, options):
    session, sampler = Session(tiny.target, tiny.in_mlx), Sampler(options, tiny.target.vocab_size)
    for _ in session.prefill(PROMPT, lambda: False):
        pass

    def serial():
        return SerialSource(session, tiny.in_mlx, sampler)

    changes = []
    makers = {
        "gpu": serial,
        "ane": lambda: FallbackSource(tiny.ane(session, sampler), serial, lambda *_: None),
        "mirror": lambda: FallbackSource(tiny.mirror(session, sampler), serial, lambda *_: None),
    }
    source = AutoSource(
        session, BLOCK, controller, lambda mode: makers[mode](), lambda mode, reason: changes.append((mode, reason))
    )
    limits = Limits(TOKENS, frozenset(), BLOCK)
    return session, list(decode(session, PROMPT[-1], source, sampler, limits)), changes


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("draft_ms", "beside_ms"),
    [
        ({"gpu": 1.0, "ane": 2.0}, ()),
        ({"gpu": 2.0, "ane": 1.0}, ()),
        ({"gpu": 1e4, "ane": 1e3}, ((16, -9.9),)),
        ({"gpu": 1e4, "ane": 1e4}, ()),
    ],
    ids=["gpu", "ane", "mirror", "plain"],
)
def test_the_text_is_that_of_plain_decoding(tiny, temperature, draft_ms, beside_ms):
    plain = run(tiny.target, tiny.in_mlx, PROMPT, max_tokens=TOKENS, temperature=temperature, seed=3)
    controller = Controller(costs(draft_ms, beside_ms))
    session, steps, _ = answer(tiny, controller, GenerateOptions(temperature=temperature, seed=3))
    assert [token for step in steps for token in step.tokens] == plain.tokens
    assert session.tokens == plain.session.tokens
    assert session.context.length == session.length


def test_steps_say_the_mode_that_they_had_and_changes_their_reason(tiny):
    controller = Controller(costs({"ane": 1.0}))
    _, steps, changes = answer(tiny, controller, GenerateOptions())
    assert steps[1].mode == "ane"
    assert changes[0][0] == "ane"
    assert {step.mode for step in steps} <= {"plain", "ane", "lookup"}
    assert all((step.mode == "plain") == (not step.proposals) for step in steps)


def test_a_draft_that_fails_is_left_and_another_takes_over_in_the_same_answer(tiny, monkeypatch):
    controller = Controller(costs({"gpu": 2.0, "ane": 1.0}))
    monkeypatch.setattr(tiny.drafter, "block", broken)
    session, steps, _ = answer(tiny, controller, GenerateOptions())
    assert [token for step in steps for token in step.tokens] == plain_tokens(tiny)
    assert {step.mode for step in steps} <= {"gpu", "plain", "lookup"}
    assert controller.choose(BLOCK, session.length).mode != "ane"


def test_plain_steps_are_queued_ahead_of_what_they_come_to(tiny):
    controller = Controller(costs({"gpu": 1e4, "ane": 1e4}))
    session, sampler = Session(tiny.target, tiny.in_mlx), Sampler(GenerateOptions(), tiny.target.vocab_size)
    source = AutoSource(session, BLOCK, controller, lambda _mode: tiny.ane(session, sampler), lambda *_: None)
    assert source.needs_no_outcome()
    drafting = Controller(costs({"gpu": 1e-3, "ane": 1e-3}))
    source = AutoSource(session, BLOCK, drafting, lambda _mode: tiny.ane(session, sampler), lambda *_: None)
    assert not source.needs_no_outcome()


def auto_source(controller, drafts=None):
    """Auto without a draft, or with those that make the source of a mode."""
    return lambda session, _sampler: AutoSource(session, BLOCK, controller, drafts, lambda *_: None)


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_repeats_are_looked_up_without_a_draft_and_the_text_stays(temperature, monkeypatch):
    three_tokens_only(monkeypatch)
    target, options = tiny_target(), {"max_tokens": TOKENS, "temperature": temperature, "seed": 1}
    plain = run(target, None, [0, 1, 2], **options)
    answer = run(target, None, [0, 1, 2], auto_source(Controller(costs({}))), **options)
    assert answer.tokens == plain.tokens
    assert {step.mode for step in answer.steps} == {"plain", "lookup"}
    assert len(answer.steps) < len(plain.steps)
    assert all(step.draft_ms == 0 for step in answer.steps)


class Noting(Controller):
    """Notes what it is told of repeats."""

    def __init__(self, costs):
        super().__init__(costs)
        self.told = []

    def observe_repeat(self, length, right, judged):
        self.told.append((length, right, judged))
        super().observe_repeat(length, right, judged)


def test_what_would_have_been_looked_up_is_held_against_every_step(monkeypatch):
    target = tiny_target()
    plain = run(target, None, [0, 1, 2], max_tokens=TOKENS)
    wrong = min({*range(VOCABULARY)} - {*plain.tokens})
    monkeypatch.setattr("core.engine.source_lookup.RepeatIndex.repeat", lambda _self, rows: Repeat(3, [wrong] * rows))
    controller = Noting(Costs(tuple(10.0 * rows for rows in range(1, BLOCK + 1)), (0.0,) * BLOCK, {}))
    answer = run(target, None, [0, 1, 2], auto_source(controller), max_tokens=TOKENS)
    assert answer.tokens == plain.tokens
    assert {step.mode for step in answer.steps} == {"plain"}
    assert controller.told == [(3, 0, 1)] * (TOKENS - 1)


def test_a_repeat_is_looked_up_where_a_draft_is_chosen_else(tiny, monkeypatch):
    three_tokens_only(monkeypatch)
    controller = Controller(costs({"gpu": 5.0}))
    _, steps, _ = answer(tiny, controller, GenerateOptions())
    plain = run(tiny.target, tiny.in_mlx, PROMPT, max_tokens=TOKENS)
    assert [token for step in steps for token in step.tokens] == plain.tokens
    assert {"gpu", "lookup"} <= {step.mode for step in steps}
