"""Tier A on the demo pair: with stock BLAS its answers are the same in both modes too, token for token."""

from __future__ import annotations

import mlx.core as mx
import pytest

from core.bench.prompts import PROMPTS
from core.engine.answer import Answer
from core.protocol import ChatMessage, Generate, GenerateOptions
from helpers.decoding import cached


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prompt", "options"),
    [(PROMPTS[6], {}), (PROMPTS[6], {"temperature": 0.8, "seed": 4}), (PROMPTS[21], {})],
    ids=["greedy", "seeded", "list"],
)
def test_both_modes_give_the_same_answer_of_the_demo_pair(demo, prompt, options):
    if demo.target.dtype != mx.float32:
        pytest.skip("this device loads the demo pair in fewer bits than float32")
    answers, states = [], []
    for mode in ("plain", "gpu"):  # the second one reads no prompt: a row takes 0.1 s here
        request = Generate(
            demo.pair, (ChatMessage("user", prompt),), GenerateOptions(mode=mode, max_tokens=10, **options)
        )
        *_, done = Answer(demo, request, lambda: False).events()
        answers.append((done.token_ids, done.text))
        states.append(cached(demo.session))
    assert answers[0] == answers[1]
    assert done.accepted > 0
    assert all((plain == gpu).all() for plain, gpu in zip(*states, strict=True))
