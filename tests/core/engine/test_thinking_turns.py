"""Thinking with a template as Qwen3 has it: told from the answer, never shown to the model again, never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.engine.answer import Answer
from core.engine.prompt import render_prompt, thinks_by_itself
from core.protocol import ChatMessage, Generate, GenerateOptions, Step
from helpers.scripted import scripted_pair

QWEN3 = (Path(__file__).parent / "data" / "qwen3_style.jinja").read_text()
THINKING_OFF = "{%- set enable_thinking = false %}" + QWEN3
"""As the template sees it where the caller switches thinking off."""
OPENED = QWEN3.replace(
    "{{- '<|im_start|>assistant\\n' }}\n    {%- if enable",
    "{{- '<|im_start|>assistant\\n<think>\\n' }}\n    {%- if enable",
)
"""Some templates (Qwen3-Thinking, QwQ) open the thinking in the prompt, so the model never writes its tag."""
THINKS_AND_ANSWERS = ["\n", "<think>", *"Hm.", "</think>", *"Yes!", "<|im_end|>"]
GOES_ON_THINKING = ["\n", *"Hm.", "</think>", *"Yes!", "<|im_end|>"]
HISTORY_OF_THINKING = (
    "<|im_start|>system\nBe brief.<|im_end|>\n"
    "<|im_start|>user\nOne?<|im_end|>\n"
    "<|im_start|>assistant\nYes!<|im_end|>\n"
    "<|im_start|>user\nTwo?<|im_end|>\n"
    "<|im_start|>assistant\n"
)


def messages(*texts: str) -> tuple[ChatMessage, ...]:
    return tuple(ChatMessage(("user", "assistant")[n % 2], text) for n, text in enumerate(texts))


def answered(pair, *texts: str, **options):
    """All events of an answer."""
    request = Generate(pair.pair, messages(*texts), GenerateOptions(**{"max_tokens": 30, **options}))
    return list(Answer(pair, request, lambda: False).events())


@pytest.fixture(scope="module")
def tokenizer():
    return scripted_pair(QWEN3, THINKS_AND_ANSWERS).tokenizer


def test_the_variants_of_the_template_differ_as_meant():
    assert OPENED != QWEN3


# ------------------------------------------------------------------- the prompt


@pytest.mark.parametrize(
    "answer",
    [
        "Yes!",
        "<think>\nHm.\n</think>\n\nYes!",
        "<think>\n\n</think>\n\nYes!",
        "Hm.\n</think>\n\nYes!",  # the tag stood in the prompt
        "<think>a</think><think>b</think>Yes!",
    ],
)
def test_old_thinking_is_dropped_from_the_history(tokenizer, answer):
    system = ChatMessage("system", "Be brief.")
    prompt = render_prompt(tokenizer, [system, *messages("One?", answer, "Two?")])
    assert prompt.text == HISTORY_OF_THINKING
    assert list(prompt.ids) == tokenizer.encode(HISTORY_OF_THINKING, parse_special=True)


def test_what_the_template_does_not_drop_stays(tokenizer):
    spoken_of = "Is </think> a tag? And <think>?"
    prompt = render_prompt(tokenizer, messages(spoken_of, "<think>\nHm.\n</think>\n\nA <|im_end|>.", "Two?"))
    assert spoken_of in prompt.text
    assert "assistant\nA <|im_end|>.<|im_end|>\n" in prompt.text
    assert "Hm." not in prompt.text


def test_thinking_behind_the_last_question_is_kept(tokenizer):
    """The template sees roles and order as they are: it, not the engine, decides which thinking is old."""
    prompt = render_prompt(tokenizer, messages("One?", "<think>\nHm.\n</think>\n\nYes!"))
    assert prompt.text.endswith("assistant\n<think>\nHm.\n</think>\n\nYes!")


@pytest.mark.parametrize(
    ("template", "tail", "opens"),
    [
        (QWEN3, "<|im_start|>assistant\n", False),
        (THINKING_OFF, "<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        (OPENED, "<|im_start|>assistant\n<think>\n", True),
    ],
    ids=["closed", "switched off", "opened"],
)
def test_the_prompts_tail_says_whether_the_answer_begins_inside_the_thinking(template, tail, opens):
    prompt = render_prompt(scripted_pair(template, THINKS_AND_ANSWERS).tokenizer, messages("One?"))
    assert prompt.text.endswith(tail)
    assert prompt.opens_thinking is opens


def test_a_question_that_ends_in_the_tag_opens_nothing(tokenizer):
    assert not render_prompt(tokenizer, messages("What does this mean: <think>")).opens_thinking


# ------------------------------------------------------------------- the stream


@pytest.mark.parametrize("mode", ["plain", "gpu"])
@pytest.mark.parametrize(
    ("template", "script", "thinking"),
    [
        (QWEN3, THINKS_AND_ANSWERS, "Hm."),
        (OPENED, GOES_ON_THINKING, "Hm."),
        (THINKING_OFF, ["\n", *"Yes!", "<|im_end|>"], ""),
        (QWEN3, ["\n", *"Yes!", "<|im_end|>"], ""),
    ],
    ids=["from the stream", "from the prompt's tail", "switched off", "not thinking"],
)
def test_thinking_is_told_from_the_answer(template, script, thinking, mode):
    *events, done = answered(scripted_pair(template, script), "One?", mode=mode)
    assert (done.thinking, done.text, done.finish_reason) == (thinking, "Yes!", "stop")
    steps = [event for event in events if isinstance(event, Step)]
    assert "".join(step.thinking for step in steps) == thinking
    assert "".join(step.text for step in steps) == "Yes!"


def test_an_answer_cut_in_its_thinking_has_no_text():
    *_, done = answered(scripted_pair(QWEN3, THINKS_AND_ANSWERS), "One?", max_tokens=3)
    assert (done.thinking, done.text, done.finish_reason) == ("Hm", "", "length")


def test_a_stop_string_in_the_thinking_ends_nothing():
    *_, done = answered(scripted_pair(QWEN3, THINKS_AND_ANSWERS), "One?", stop=("m", "s!"))
    assert (done.thinking, done.text, done.finish_reason) == ("Hm.", "Ye", "stop_string")


# -------------------------------------------------------------------- the turns


@pytest.mark.parametrize("mode", ["plain", "gpu"])
@pytest.mark.parametrize(
    ("template", "script", "opened"),
    [(QWEN3, THINKS_AND_ANSWERS, ""), (OPENED, GOES_ON_THINKING, "<think>\n")],
    ids=["from the stream", "from the prompt's tail"],
)
def test_the_next_turn_reuses_the_cache_up_to_the_dropped_thinking(template, script, opened, mode):
    pair = scripted_pair(template, script)
    *_, first = answered(pair, "One?", mode=mode)
    *_, second = answered(pair, "One?", first.text, "Two?", mode=mode)
    # The first prompt but for the thinking that it opened; then the answer without thinking is new.
    kept = first.prompt_tokens - len(pair.tokenizer.encode(opened, parse_special=True))
    assert second.reused_tokens == kept
    assert pair.session.tokens[:kept] == pair.tokenizer.encode(
        "<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\n", parse_special=True
    )
    prompt = render_prompt(pair.tokenizer, messages("One?", first.text, "Two?"))
    assert pair.session.tokens[: second.prompt_tokens] == list(prompt.ids)
    assert "Hm." not in prompt.text
    assert (second.thinking, second.text) == (first.thinking, first.text)


# ------------------------------------------------------------------- the switch


def test_thinking_is_switched_by_the_templates_own_switch(tokenizer):
    asked = messages("One?")
    untold = render_prompt(tokenizer, asked)
    assert render_prompt(tokenizer, asked, thinking=True) == untold
    off = render_prompt(tokenizer, asked, thinking=False)
    assert off.text == untold.text + "<think>\n\n</think>\n\n"
    assert not off.opens_thinking


@pytest.mark.parametrize(
    ("template", "thinks"),
    [
        (QWEN3, True),
        (QWEN3.replace("enable_thinking is defined and enable_thinking is false", "not enable_thinking"), False),
        (QWEN3.replace("enable_thinking", "another_name"), None),
        (QWEN3.replace("enable_thinking", "another_name") + "{# enable_thinking #}", None),
        ("{{ raise_exception('enable_thinking is not for me') }}", None),
    ],
)
def test_whether_a_model_thinks_by_itself_is_what_its_template_does(template, thinks):
    assert thinks_by_itself(scripted_pair(template, THINKS_AND_ANSWERS).tokenizer) is thinks


def test_an_answer_is_asked_for_as_the_options_say():
    pair = scripted_pair(QWEN3, THINKS_AND_ANSWERS)
    *_, untold = answered(pair, "One?")
    *_, told = answered(pair, "One?", thinking=False)
    closed = len(pair.tokenizer.encode("<think>\n\n</think>\n\n", parse_special=True))
    assert told.prompt_tokens == untold.prompt_tokens + closed
