"""The target writes conversations with itself, in the shape of its chat template and deterministically."""

import mlx.core as mx
import numpy as np
import pytest

from core.training.corpus import Conversation
from core.training.objective import features_of
from core.training.recording import Recorder
from core.training.synthesis import TEMPERATURES, _Row, chat_frame, synthesise
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


def test_features_kept_while_a_conversation_is_written_are_those_of_reading_it(chain, tmp_path):
    chain.set_taps((0, 2))
    path = tmp_path / "features.bin"
    with path.open("wb") as file:
        conversations = synthesise(chain, FRAME, (0,), 16, 200, Recorder(chain, file))
    rows = np.fromfile(path, np.float32).reshape(-1, 3, chain.hidden_size)
    assert len(conversations) > 8
    for conversation in conversations:
        kept = rows[conversation.feature_rows]
        read = features_of(conversation, chain)
        assert len(kept) == len(conversation.ids) - 1
        for index, features in enumerate((*read.taps, read.rows)):
            assert np.allclose(kept[:, index], np.array(features)[:-1], atol=1e-3)


def test_an_answer_sure_to_go_in_circles_is_given_up_and_no_other():
    """What is given up is what `Conversation.loops` would leave out, however the answer went on."""
    row = _Row(0.0, [1, 2], answer_start=2)
    limit = 120
    tokens = [*range(10, 40), *([7, 8, 9] * 30)][: limit - 2]
    given_up = None
    for token in tokens:
        row.ids.append(token)
        if row.circles(limit) and given_up is None:
            given_up = len(row.ids)
    assert given_up is not None
    straight_on = [*row.ids[:given_up], *range(1000, 1000 + limit - given_up)]
    assert Conversation(np.array(straight_on, np.uint32), 2, 0.0).loops
    before = [*row.ids[: given_up - 1], *range(1000, 1000 + limit - given_up + 1)]
    assert not Conversation(np.array(before, np.uint32), 2, 0.0).loops
