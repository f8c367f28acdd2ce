"""Hundreds of answers one after the other, in every mode, many cut short: nothing grows, no thread is left."""

from __future__ import annotations

import random
import threading

import psutil
import pytest

from core.engine.answer import Answer
from core.engine.loader import load_pair_now
from core.protocol import ChatMessage, Done, Generate, GenerateOptions

ANSWERS = 600
WARM = 150
"""Answers until everything that is kept has been made."""
MOST_GROWTH_BYTES = 24 << 20


@pytest.mark.slow
def test_answers_in_random_modes_with_random_cancels_leave_nothing_behind(tiny_pair):
    chance = random.Random(4)
    loaded = load_pair_now(tiny_pair)
    threads = threading.active_count()
    process = psutil.Process()
    messages: tuple[ChatMessage, ...] = ()
    texts: dict[tuple[str, ...], dict[str, str]] = {}
    warm_bytes = 0
    for number in range(ANSWERS):
        mode = chance.choice(loaded.modes)
        if len(messages) > 6 or chance.random() < 0.3:
            messages = ()
        messages = (*messages, ChatMessage("user", f"the {chance.choice(['cat', 'dog', 'sun'])}"))
        left = iter(range(chance.choice([0, 1, 5, 1000])))
        options = GenerateOptions(mode=mode, max_tokens=24, temperature=chance.choice([0.0, 0.8]), seed=3)
        request = Generate(tiny_pair, messages, options)
        done = None
        for event in Answer(loaded, request, lambda left=left: next(left, None) is None).events():  # type: ignore[misc]
            done = event if isinstance(event, Done) else None
        assert done is not None
        if done.finish_reason != "cancelled":
            key = (*(message.content for message in messages), str(options.temperature))
            texts.setdefault(key, {})[mode] = done.text
            messages = (*messages, ChatMessage("assistant", done.text))
        if number == WARM:
            warm_bytes = process.memory_info().rss
    assert threading.active_count() == threads
    assert process.memory_info().rss - warm_bytes < MOST_GROWTH_BYTES
    assert all(len(set(by_mode.values())) == 1 for by_mode in texts.values()), "a mode gave another text"
    assert any(len(by_mode) > 2 for by_mode in texts.values()), "modes were compared"
    loaded.close()
