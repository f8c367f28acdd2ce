"""Turns of one conversation: of each prompt only what is new passes through the target, in every mode."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

import pytest

from core.engine.answer import Answer
from core.engine.prompt import render_prompt
from core.engine.target import Target
from core.protocol import ChatMessage, Done, Generate, GenerateOptions, Prefill
from helpers.scripted import CHATML, scripted_pair

FRANCE = "What is the capital of France?"
SPAIN = "And of Spain?"
SCRIPT = ["\n", *"Paris, to", "<|im_end|>"]
AFTER_AN_ANSWER = "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
"""What the template puts behind an answer for the next turn."""


@dataclass(frozen=True)
class Turn:
    """What an answer reported, and what passed through the target before it."""

    prompt_ids: tuple[int, ...]
    reused: int
    reported_rows: int
    prompt_rows: int
    """Rows of all passes before the answer's first."""
    done: Done

    @property
    def held(self) -> tuple[int, ...]:
        """The tokens that stay in the cache: all but the answer's last."""
        return self.prompt_ids + self.done.token_ids[:-1]


@pytest.fixture(scope="module")
def pair():
    return scripted_pair(CHATML, SCRIPT)


@pytest.fixture
def ask(pair, monkeypatch):
    """Answers a conversation in the session as it stands, and counts. Begins with an empty session."""
    rows = []
    forward = Target.forward

    def counting(self, tokens, cache):
        rows.append(tokens.shape[0])
        return forward(self, tokens, cache)

    monkeypatch.setattr(Target, "forward", counting)
    pair.session.trim_to(0)

    def answer(*texts: str, cancelled=lambda: False, **options) -> Turn:
        messages = tuple(ChatMessage(("user", "assistant")[n % 2], text) for n, text in enumerate(texts))
        rows.clear()
        progress, prompt_rows = [], 0
        request = Generate(pair.pair, messages, GenerateOptions(**{"max_tokens": 20, **options}))
        for event in Answer(pair, request, cancelled).events():
            if isinstance(event, Prefill):
                progress.append(event)
                prompt_rows = sum(rows)
        assert isinstance(event, Done)
        reported_rows = progress[-1].done - progress[0].done
        assert {report.reused for report in progress} == {event.reused_tokens}
        assert progress[-1].total == event.prompt_tokens
        prompt_ids = render_prompt(pair.tokenizer, messages).ids
        return Turn(prompt_ids, event.reused_tokens, reported_rows, prompt_rows, event)

    return answer


def common(held, prompt_ids) -> int:
    """The length of the beginning that both share; the prompt's last token is always read anew."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(held, prompt_ids[:-1], strict=False)))


def assert_read(turn: Turn, expected_rows: int) -> None:
    assert turn.reused == len(turn.prompt_ids) - 1 - expected_rows
    assert turn.reported_rows == turn.prompt_rows == expected_rows


def new_turn_rows(pair, text: str) -> int:
    """Rows of a next turn: from the end of the answer before, whose token the cache lacks, to before the last one."""
    return len(pair.tokenizer.encode(AFTER_AN_ANSWER.format(text), parse_special=True)) - 1


@pytest.mark.parametrize("mode", ["plain", "gpu"])
def test_a_first_turn_reads_all_but_the_last_token(ask, mode):
    turn = ask(FRANCE, mode=mode)
    assert_read(turn, len(turn.prompt_ids) - 1)


@pytest.mark.parametrize("mode", ["plain", "gpu"])
def test_a_second_turn_reads_only_the_new_turn(pair, ask, mode):
    first = ask(FRANCE, mode=mode)
    assert first.done.finish_reason == "stop"
    assert_read(ask(FRANCE, first.done.text, SPAIN, mode=mode), new_turn_rows(pair, SPAIN))


@pytest.mark.parametrize("mode", ["plain", "gpu"])
@pytest.mark.parametrize("again", [{}, {"temperature": 1.0, "seed": 3}], ids=["same options", "other options"])
def test_regenerating_reads_nothing(ask, mode, again):
    first = ask(FRANCE, mode=mode)
    second = ask(FRANCE, mode=mode, **again)
    assert_read(second, 0)
    if not again:
        assert second.done.token_ids == first.done.token_ids


def test_regenerating_a_later_answer_reads_nothing(ask):
    first = ask(FRANCE)
    conversation = (FRANCE, first.done.text, SPAIN)
    ask(*conversation)
    assert_read(ask(*conversation), 0)


@pytest.mark.parametrize("mode", ["plain", "gpu"])
def test_an_edited_message_is_read_from_the_first_changed_token_on(pair, ask, mode):
    first = ask(FRANCE, mode=mode)
    second = ask(FRANCE, first.done.text, SPAIN, mode=mode)
    edited = ask("What is the capital of Italy?", mode=mode)
    shared = common(second.held, edited.prompt_ids)
    assert pair.tokenizer.decode(edited.prompt_ids[:shared]).endswith("What is the capital of ")
    assert_read(edited, len(edited.prompt_ids) - 1 - shared)


def test_an_edit_of_the_last_message_keeps_the_turns_before(pair, ask):
    first = ask(FRANCE)
    ask(FRANCE, first.done.text, SPAIN)
    edited = ask(FRANCE, first.done.text, "And of Portugal?")
    assert edited.reused >= len(first.held) + len(pair.tokenizer.encode("<|im_end|>\n", parse_special=True))
    assert_read(edited, new_turn_rows(pair, "And of Portugal?") - (edited.reused - len(first.held)))


def test_going_back_to_an_earlier_turn_reads_nothing_of_it(ask):
    first = ask(FRANCE)
    ask(FRANCE, first.done.text, SPAIN)
    assert_read(ask(FRANCE), 0)


@pytest.mark.parametrize("modes", [("plain", "gpu", "plain"), ("gpu", "plain", "gpu")], ids="-".join)
def test_switching_the_mode_between_turns_reads_only_the_new_turn(pair, ask, modes):
    conversation = [FRANCE]
    for mode, text in zip(modes, [SPAIN, "And of Italy?", ""], strict=True):
        turn = ask(*conversation, mode=mode)
        if len(conversation) > 1:
            assert_read(turn, new_turn_rows(pair, conversation[-1]))
        assert turn.done.finish_reason == "stop"
        assert pair.session.context.length == pair.session.length == len(turn.held)
        conversation += [turn.done.text, text]


@pytest.mark.parametrize("mode", ["plain", "gpu"])
def test_switching_the_mode_to_regenerate_reads_nothing(ask, mode):
    first = ask(FRANCE, mode="gpu" if mode == "plain" else "plain")
    second = ask(FRANCE, mode=mode)
    assert_read(second, 0)
    assert second.done.text == first.done.text


@pytest.mark.parametrize("mode", ["plain", "gpu"])
def test_a_turn_after_a_stop_string_reads_on_from_where_the_text_was_cut(pair, ask, mode):
    first = ask(FRANCE, mode=mode, stop=("is",))
    assert first.done.text == "Par"
    second = ask(FRANCE, first.done.text, SPAIN, mode=mode)
    cut = len(first.prompt_ids) + len(pair.tokenizer.encode("Par", parse_special=False))
    assert_read(second, len(second.prompt_ids) - 1 - cut)


@pytest.mark.parametrize("mode", ["plain", "gpu"])
def test_a_turn_after_a_stopped_answer_reads_on_from_its_last_token(ask, mode):
    checks = iter(range(1000))
    first = ask(FRANCE, mode=mode, cancelled=lambda: next(checks) > 3)
    assert first.done.finish_reason == "cancelled"
    second = ask(FRANCE, first.done.text, SPAIN, mode=mode)
    assert_read(second, len(second.prompt_ids) - 1 - len(first.held))


def test_another_conversation_shares_only_its_beginning(ask):
    ask(FRANCE)
    other = ask("Hello!")
    system_and_role = common(ask(FRANCE).prompt_ids, other.prompt_ids)
    assert 0 < system_and_role < len(other.prompt_ids) - 1
    assert_read(other, len(other.prompt_ids) - 1 - system_and_role)
