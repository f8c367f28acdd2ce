"""The target writes conversations with itself, in the shape of its chat template and deterministically."""

import mlx.core as mx
import pytest

from core.training.synthesis import TEMPERATURES, chat_frame, synthesise
from helpers.chain import FRAME


def written(chain, seed=(0,), rows=16, max_tokens=200):
    return synthesise(chain, FRAME, seed, rows, max_tokens)


def test_every_conversation_has_the_templates_tokens_around_the_message(chain):
    conversations = written(chain)
    assert len(conversations) > 8
    for conversation in conversations:
        ids, start = tuple(conversation.ids.tolist()), conversation.answer_start
        assert ids[: len(FRAME.before)] == FRAME.before
        assert ids[start - len(FRAME.between) : start] == FRAME.between
        assert not FRAME.ends & set(ids[:start])
        assert not FRAME.ends & set(ids[start:-1])


def test_answers_end_at_an_end_or_at_the_limit(chain):
    lengths = set()
    for conversation in written(chain, max_tokens=100):
        lengths.add(len(conversation.ids))
        assert conversation.ids[-1] in FRAME.ends or len(conversation.ids) == 100
    assert max(lengths) == 100
    assert len(lengths) > 2


def test_greedy_answers_are_what_the_target_says_on_its_own(chain):
    greedy = [conversation for conversation in written(chain) if not conversation.temperature]
    assert greedy
    for conversation in greedy:
        logits = chain.model(mx.array(conversation.ids)[None])[0]
        start = conversation.answer_start
        assert mx.argmax(logits, axis=-1)[start - 1 : -1].tolist() == conversation.ids[start:].tolist()


def test_the_answers_temperatures_are_mixed(chain):
    assert {conversation.temperature for conversation in written(chain)} == set(TEMPERATURES)


def test_the_same_seed_writes_the_same_and_another_seed_something_else(chain):
    texts = [[c.ids.tolist() for c in written(chain, seed)] for seed in ((1, 2), (1, 2), (1, 3))]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_a_message_without_end_is_cut(chain):
    endless = type(FRAME)(FRAME.before, FRAME.between, frozenset({0}))
    for conversation in synthesise(chain, endless, (0,), 4, 300):
        assert conversation.answer_start == len(FRAME.before) + 120 + len(FRAME.between)


@pytest.mark.slow
def test_the_demo_target_writes_sensible_conversations(demo):
    frame = chat_frame(demo.tokenizer)
    conversations = synthesise(demo.target, frame, (0,), 8, 90)
    assert len(conversations) >= 4
    text = demo.tokenizer.decode(conversations[0].ids.tolist())
    assert text.count("assistant") >= 1
    assert demo.tokenizer.decode(frame.before).endswith("user\n")
