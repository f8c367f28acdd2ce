"""Answers of the demo pair: the same text in both modes, figures that add up, every end, every token's origin."""

from __future__ import annotations

import pytest

from core.bench.prompts import PROMPTS
from core.engine.answer import Answer
from core.errors import BadRequest, PromptTooLong
from core.protocol import ChatMessage, Done, Generate, GenerateOptions, Prefill, Step


def answer(demo, prompt, cancelled=lambda: False, **options):
    """All events of an answer to one user message."""
    demo.session.trim_to(0)
    options.setdefault("max_tokens", 16)
    request = Generate(demo.pair, (ChatMessage("user", prompt),), GenerateOptions(**options))
    return list(Answer(demo, request, cancelled).events())


def steps_of(events):
    return [event for event in events if isinstance(event, Step)]


def test_a_seeded_answer_is_the_same_in_both_modes_and_again(demo):
    options = {"temperature": 0.8, "seed": 11, "max_tokens": 8}
    plain, gpu, again = (answer(demo, PROMPTS[0], mode=mode, **options)[-1] for mode in ("plain", "gpu", "gpu"))
    assert plain.token_ids == gpu.token_ids == again.token_ids
    other = answer(demo, PROMPTS[0], **{**options, "mode": "gpu", "seed": 12})[-1]
    assert other.token_ids != gpu.token_ids


@pytest.mark.parametrize("mode", ["plain", "gpu"])
def test_the_figures_add_up(demo, mode):
    events = answer(demo, PROMPTS[1], mode=mode)
    done, steps = events[-1], steps_of(events)
    assert isinstance(events[0], Prefill)
    assert isinstance(done, Done)
    assert done.text == "".join(step.text for step in steps) != ""
    assert done.token_ids == tuple(token.id for step in steps for token in step.tokens)
    assert done.tokens == len(done.token_ids) == steps[-1].tokens_so_far == 16
    assert done.steps == len(steps) - 1
    assert done.accepted_per_step == pytest.approx((done.tokens - 1) / done.steps)
    assert done.accepted == sum(step.accepted for step in steps)
    assert done.proposed == sum(step.proposed for step in steps)
    assert done.tokens_per_second == pytest.approx((done.tokens - 1) / steps[-1].elapsed_s)
    assert (done.mode, done.finish_reason) == (mode, "length")
    assert done.plain_ms_per_token > 0
    if mode == "plain":
        assert (done.accepted_per_step, done.proposed) == (1.0, 0)


def test_every_token_says_where_it_came_from(demo):
    for step in steps_of(answer(demo, PROMPTS[2], mode="gpu", max_tokens=24)):
        origins = [token.origin for token in step.tokens]
        drafted = origins[: step.accepted]
        assert drafted == ["draft"] * step.accepted
        assert [token.draft_position for token in step.tokens[: step.accepted]] == list(range(1, step.accepted + 1))
        last = step.tokens[-1]
        if step.proposed == 0:
            assert last.origin == "plain"
        elif len(step.tokens) > step.accepted:
            assert last.origin == ("bonus" if step.accepted == step.proposed else "correction")
            assert bool(last.draft_said) == (last.origin == "correction")
            assert last.draft_said != last.text or last.origin == "bonus"
        assert len(step.rejected) == step.proposed - step.accepted
        if last.origin == "correction":
            assert step.rejected[0] == last.draft_said


def test_an_end_of_turn_ends_the_answer_without_showing_its_token(demo):
    done = answer(demo, "What is the capital of France?", max_tokens=16)[-1]
    assert done.finish_reason == "stop"
    assert done.text == "The capital of France is Paris."
    assert done.token_ids[-1] in demo.tokenizer.eos_ids


@pytest.mark.parametrize("mode", ["plain", "gpu"])
def test_a_stop_string_cuts_text_and_tokens(demo, mode):
    done = answer(demo, "What is the capital of France?", mode=mode, stop=("al of Fr",))[-1]
    assert done.finish_reason == "stop_string"
    assert done.text == "The capit"
    assert demo.tokenizer.decode(done.token_ids).startswith("The capital of Fr")
    assert len(demo.tokenizer.decode(done.token_ids[:-1])) < len("The capital of Fr")


def test_a_stopped_answer_keeps_its_text(demo):
    checks = iter(range(1000))
    events = answer(demo, PROMPTS[0], cancelled=lambda: next(checks) > 5)
    done = events[-1]
    assert done.finish_reason == "cancelled"
    assert 0 < done.tokens < 16
    assert done.text == "".join(step.text for step in steps_of(events))


def test_a_stop_during_prefill_gives_an_empty_answer(demo):
    events = answer(demo, PROMPTS[0] * 3, cancelled=lambda: True)
    assert [type(event) for event in events] == [Prefill, Done]
    assert (events[-1].tokens, events[-1].finish_reason) == (0, "cancelled")


def test_a_second_turn_reads_only_what_is_new(demo):
    first = answer(demo, PROMPTS[3], mode="gpu")[-1]
    messages = (
        ChatMessage("user", PROMPTS[3]),
        ChatMessage("assistant", first.text),
        ChatMessage("user", "And Spain?"),
    )
    *_, done = Answer(demo, Generate(demo.pair, messages, GenerateOptions(max_tokens=4)), lambda: False).events()
    assert done.reused_tokens >= first.prompt_tokens + first.tokens - 2
    assert done.prompt_tokens - done.reused_tokens < 30


@pytest.mark.parametrize(
    "options", [{"width": 0}, {"width": 9}, {"max_tokens": 0}, {"temperature": -1.0}, {"seed": -1}], ids=str
)
def test_impossible_options_are_refused(demo, options):
    with pytest.raises(BadRequest):
        answer(demo, "Hi", **options)


def test_a_conversation_beyond_the_context_is_refused(demo):
    with pytest.raises(PromptTooLong, match="8,192"):
        answer(demo, "word " * 9000)
