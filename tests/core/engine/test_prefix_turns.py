"""Turns of several chats: what is known of any of them does not pass through the target again."""

from __future__ import annotations

import gc
from itertools import takewhile
from pathlib import Path

import mlx.core as mx
import pytest

from core.engine.answer import Answer
from core.engine.loader import LoadedPair, load_pair_now, load_target
from core.engine.prompt import render_prompt, shared_beginning
from core.engine.session import Session
from core.engine.stats import PlainCost
from core.engine.target import Target
from core.pairs import Pair
from core.protocol import ChatMessage, Done, Generate, GenerateOptions
from helpers.folders import write_family_folder
from helpers.scripted import CHATML, scripted_pair

PLENTY = 1_000_000_000
SYSTEM = "You are a careful helper who answers in one short sentence and names no sources."
FRANCE, SPAIN, WEATHER, HELLO = "What is the capital of France?", "And of Spain?", "How will the weather be?", "Hello!"
SCRIPT = ["\n", *"Paris, to", "<|im_end|>"]
QWEN3 = (Path(__file__).parent / "data" / "qwen3_style.jinja").read_text()
THINKS_AND_ANSWERS = ["\n", "<think>", *"Hm.", "</think>", *"Yes!", "<|im_end|>"]
STATEFUL = ("qwen3_5", "lfm2", "llama, sliding", "llama4")


class Asking:
    """Asks a pair, and counts the rows that pass through the target before the first token of an answer."""

    def __init__(self, pair: LoadedPair, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pair = pair
        pair.session = Session(pair.target, pair.drafter, PLENTY)
        self.known: list[tuple[int, ...]] = []
        """The tokens that have been committed, of each answer."""
        self._rows: list[int] = []
        forward = Target.forward

        def counting(target, tokens, cache):
            self._rows.append(tokens.shape[0])
            return forward(target, tokens, cache)

        monkeypatch.setattr(Target, "forward", counting)

    def __call__(self, *texts: str, system: str = SYSTEM, cancelled=lambda: False, **options) -> Done:
        self.messages = (
            ChatMessage("system", system),
            *(ChatMessage(("user", "assistant")[n % 2], text) for n, text in enumerate(texts)),
        )
        self.prompt = render_prompt(self.pair.tokenizer, self.messages).ids
        request = Generate(self.pair.pair, self.messages, GenerateOptions(**{"max_tokens": 20, **options}))
        self._rows.clear()
        progress = []
        for event in Answer(self.pair, request, cancelled).events():
            if not isinstance(event, Done) and hasattr(event, "reused"):
                progress.append(event)
                read = sum(self._rows)
        assert isinstance(event, Done)
        assert progress[-1].done == event.reused_tokens + read
        self.known.append(tuple(self.pair.session.tokens))
        return event

    @property
    def longest_known(self) -> int:
        """Of the last prompt, before it was asked."""
        return max((common(tokens, self.prompt[:-1]) for tokens in self.known[:-1]), default=0)

    def reused_text(self, done: Done) -> str:
        """Of the last prompt."""
        return text_of(self.pair.tokenizer, self.prompt[: done.reused_tokens])


def text_of(tokenizer, ids) -> str:
    return "".join(tokenizer.token_text(token) for token in ids)


def common(one, other) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@pytest.fixture
def ask(monkeypatch):
    return Asking(scripted_pair(CHATML, SCRIPT), monkeypatch)


@pytest.fixture(scope="module")
def real_pair(tmp_path_factory):
    """With a draft in MLX and as programs."""
    from helpers.folders import write_tiny_pair

    pair = load_pair_now(write_tiny_pair(tmp_path_factory.mktemp("pair")))
    yield pair
    pair.close()


@pytest.fixture(scope="module")
def stateful_pairs(tmp_path_factory):
    pairs = {}
    for family in STATEFUL:
        folder = write_family_folder(tmp_path_factory.mktemp("family") / "target", family)
        target, tokenizer = load_target(folder)
        pairs[family] = LoadedPair(
            Pair(family, str(folder), None), target, tokenizer, None, Session(target, None), PlainCost()
        )
    return pairs


# ------------------------------------------------------- targets with whole caches


@pytest.mark.parametrize("mode", ["plain", "gpu", "ane", "mirror", "auto"])
def test_switching_between_two_chats_reads_only_the_new_turns(real_pair, monkeypatch, mode):
    ask = Asking(real_pair, monkeypatch)
    one, other = [FRANCE], [WEATHER]
    for turn in range(3):
        for chat, question in ((one, SPAIN), (other, HELLO)):
            before = ask.known[:]
            done = ask(*chat, mode=mode, max_tokens=12)
            assert done.reused_tokens == ask.longest_known
            if turn:
                assert done.reused_tokens > len(before[-2]) - 12  # all of that chat but what its text does not tell
            chat += [done.text, question]
    fresh = Asking(real_pair, monkeypatch)
    assert (
        fresh(*one[:-2], mode=mode, max_tokens=12).token_ids == fresh(*one[:-2], mode="plain", max_tokens=12).token_ids
    )


def test_a_new_chat_reads_only_what_follows_the_system_prompt(ask):
    ask(FRANCE)
    done = ask(HELLO)
    assert done.reused_tokens == ask.longest_known
    assert ask.reused_text(done).endswith(f"{SYSTEM}<|im_end|>\n<|im_start|>user\n")


def test_a_new_chat_finds_the_system_prompt_that_a_chat_before_the_last_one_had(ask):
    ask(FRANCE)
    ask(FRANCE, system="Speak as a pirate.")
    assert ask(HELLO).reused_tokens == ask.longest_known > len(SYSTEM)


@pytest.mark.parametrize("mode", ["plain", "gpu"])
def test_regenerating_after_a_visit_to_another_chat_reads_nothing(ask, mode):
    first = ask(FRANCE, mode=mode)
    ask(WEATHER, mode=mode)
    again = ask(FRANCE, mode=mode)
    assert again.reused_tokens == again.prompt_tokens - 1
    assert again.token_ids == first.token_ids


def test_an_edit_after_a_visit_to_another_chat_reads_from_the_first_changed_token_on(ask):
    first = ask(FRANCE)
    ask(FRANCE, first.text, SPAIN)
    ask(WEATHER)
    edited = ask(FRANCE, first.text, "And of Portugal?")
    assert edited.reused_tokens == ask.longest_known
    assert ask.reused_text(edited).endswith("<|im_start|>user\nAnd of ")


def test_going_back_to_the_text_before_an_edit_reads_only_the_new_turn(ask):
    first = ask(FRANCE)
    second = ask(FRANCE, first.text, SPAIN)
    left = len(ask.known[-1])
    ask("What is the capital of Italy?")
    assert ask(FRANCE, first.text, SPAIN, second.text, HELLO).reused_tokens == left == ask.longest_known


def test_going_back_to_an_answer_that_was_written_anew_reads_only_the_new_turn(ask):
    ask(FRANCE)
    left = len(ask.known[-1])
    ask(FRANCE, max_tokens=2)
    ask(FRANCE, max_tokens=3)
    assert ask(FRANCE, "\nParis, to"[1:], SPAIN).reused_tokens == left


def test_a_chat_left_while_its_prompt_was_read_goes_on_from_there(ask, monkeypatch):
    monkeypatch.setattr("core.engine.session.PREFILL_CHUNK_ROWS", 16)
    checks = iter(range(100))
    done = ask(WEATHER, system=SYSTEM[4:], cancelled=lambda: next(checks) >= 5)
    assert (done.finish_reason, done.tokens) == ("cancelled", 0)
    ask(FRANCE)
    assert ask(WEATHER, system=SYSTEM[4:]).reused_tokens == 5 * 16 == len(ask.known[0])


@pytest.mark.parametrize("mode", ["plain", "gpu"])
def test_a_chat_left_in_its_answer_goes_on_from_there(ask, mode):
    checks = iter(range(100))
    stopped = ask(FRANCE, mode=mode, cancelled=lambda: next(checks) > 3)
    assert stopped.finish_reason == "cancelled"
    ask(WEATHER, mode=mode)
    assert ask(FRANCE, stopped.text, SPAIN, mode=mode).reused_tokens == len(ask.known[0])


def test_with_thinking_a_chat_that_is_returned_to_reads_the_answer_without_it(monkeypatch):
    ask = Asking(scripted_pair(QWEN3, THINKS_AND_ANSWERS), monkeypatch)
    first = ask(FRANCE)
    ask(WEATHER)
    again = ask(FRANCE, first.text, SPAIN)
    assert first.thinking
    assert again.reused_tokens == first.prompt_tokens == ask.longest_known


def test_with_thinking_regenerating_and_editing_read_what_they_change(monkeypatch):
    ask = Asking(scripted_pair(QWEN3, THINKS_AND_ANSWERS), monkeypatch)
    first = ask(FRANCE)
    second = ask(FRANCE, first.text, SPAIN)
    assert ask(FRANCE, first.text, SPAIN).reused_tokens == second.prompt_tokens - 1
    edited = ask(FRANCE, first.text, "And of Portugal?")
    assert edited.reused_tokens == ask.longest_known
    assert ask.reused_text(edited).endswith("<|im_start|>user\nAnd of ")
    assert ask(FRANCE).reused_tokens == first.prompt_tokens - 1


def test_nothing_is_held_where_that_is_switched_off(ask):
    ask.pair.session = Session(ask.pair.target, ask.pair.drafter)
    ask(FRANCE)
    ask(FRANCE, system="Speak as a pirate.")
    ask(FRANCE)
    assert ask.pair.session.held_bytes == 0
    assert common(ask.known[1], ask.prompt) > 0  # the session's own conversation is still reused


def test_what_is_held_is_counted(ask):
    assert ask.pair.session.held_bytes == 0
    ask(FRANCE)
    ask(WEATHER, system="Speak as a pirate.")
    one = ask.pair.session.held_bytes
    caches = [*ask.pair.session._transaction.caches, *ask.pair.session.context.caches]
    row_bytes = sum(cache.keys[..., :1, :].nbytes + cache.values[..., :1, :].nbytes for cache in caches)
    assert one == row_bytes * len(ask.known[0])


def test_what_is_held_is_freed_with_the_session(ask):
    left = []
    for _ in range(2):  # the first time makes what stays for good
        ask(FRANCE)
        ask(WEATHER, system="Speak as a pirate.")
        held = ask.pair.session.held_bytes
        ask.pair.session = Session(ask.pair.target, ask.pair.drafter, PLENTY)
        gc.collect()
        left.append(mx.get_active_memory())
    assert held > 40_000
    assert left[1] - left[0] < held / 10


# ------------------------------- targets that can go back to points only: their states


@pytest.mark.parametrize("family", STATEFUL)
def test_a_new_chat_reads_only_what_follows_the_system_prompt_where_states_are_kept(
    stateful_pairs, monkeypatch, family
):
    monkeypatch.setattr("core.engine.sliding_cache.SPARE_ROWS", 2)
    monkeypatch.setattr("core.engine.sliding_cache._GROWTH_ROWS", 4)
    ask = Asking(stateful_pairs[family], monkeypatch)
    ask(FRANCE)
    done = ask(HELLO)
    assert done.reused_tokens == shared_beginning(ask.pair.tokenizer, ask.messages, ask.prompt) > len(ask.prompt) / 2
    assert ask(WEATHER, max_tokens=3).reused_tokens >= done.reused_tokens


@pytest.mark.parametrize("family", STATEFUL)
def test_switching_regenerating_and_editing_read_little_where_states_are_kept(stateful_pairs, monkeypatch, family):
    monkeypatch.setattr("core.engine.sliding_cache.SPARE_ROWS", 2)
    monkeypatch.setattr("core.engine.sliding_cache._GROWTH_ROWS", 4)
    monkeypatch.setattr("core.engine.session._MARK_ROWS", 2)
    ask = Asking(stateful_pairs[family], monkeypatch)
    first = ask(FRANCE)
    left = len(ask.known[-1])
    ask(WEATHER)
    again = ask(FRANCE)
    assert again.reused_tokens == again.prompt_tokens - 1 - 2  # the point near the prompt's end
    assert again.token_ids == first.token_ids
    second = ask(FRANCE, first.text, SPAIN)
    assert second.reused_tokens in (left, again.prompt_tokens - 1 - 2)  # the text may not tell the same tokens
    begun = second.reused_tokens
    ask(HELLO)
    edited = ask(FRANCE, first.text, "But of Portugal?")
    assert edited.reused_tokens == begun  # where the edited message began


# ---------------------------------------------------------------- where a chat begins


@pytest.mark.parametrize("question", ["0 is what?", FRANCE, "", "1"])
def test_the_shared_beginning_ends_where_the_first_question_begins(question):
    tokenizer = scripted_pair(CHATML, SCRIPT).tokenizer
    messages = [ChatMessage("system", SYSTEM), ChatMessage("user", question), ChatMessage("assistant", "0")]
    ids = render_prompt(tokenizer, messages).ids
    beginning = shared_beginning(tokenizer, messages, ids)
    assert text_of(tokenizer, ids[:beginning]) == f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n"


def test_a_conversation_without_a_question_shares_nothing():
    tokenizer = scripted_pair(CHATML, SCRIPT).tokenizer
    assert shared_beginning(tokenizer, [ChatMessage("assistant", "Hi")], [1, 2]) == 0
