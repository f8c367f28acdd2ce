"""What holding conversations is worth: time to the first token of chats whose beginning is known, and its memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from core.bench.rows import Row, row, single
from core.engine.answer import Answer
from core.engine.loader import LoadedPair
from core.engine.prompt import render_prompt
from core.engine.session import Session
from core.protocol import ChatMessage, Done, Generate, GenerateOptions, Mode

_LIMIT_BYTES = 4_000_000_000
_OTHER_CHAT = (ChatMessage("system", "Answer in verse."), ChatMessage("user", "What is the tallest tree?"))
_QUESTIONS = ("Name a river.", "Which colours does a rainbow have?")


@dataclass
class _Timed:
    """Times to the first token, in milliseconds, and what was reused."""

    first: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)
    """Of a chat with another system prompt, right after the first: the first one has to be held then."""
    again: list[float] = field(default_factory=list)
    """Of a new chat with the first one's system prompt, after the other."""
    reused: int = 0
    megabytes_of_1000: float = 0.0
    """Held for 1,000 tokens."""


def prefix_rows(loaded: LoadedPair, lengths: Sequence[int], words: str, runs: int, mode: Mode = "plain") -> list[Row]:
    """Chats with system prompts of so many tokens, made from `words`, in turns with and without holding them."""
    rows = []
    for length in lengths:
        system = _system_prompt(loaded, words, length)
        without, held = _Timed(), _Timed()
        for _ in range(runs):
            _ask_all(loaded, 0, system, mode, without)
            _ask_all(loaded, _LIMIT_BYTES, system, mode, held)
        about = f"{length}-token system prompt"
        rows += [
            row(f"{about}, first chat", "ms", held.first),
            row(f"{about}, second chat, nothing held", "ms", without.again),
            row(f"{about}, second chat, {held.reused} tokens held", "ms", held.again, without.again, "nothing held"),
            row("the chat between them", "ms", held.other, without.other, "nothing held"),
            single(f"{about}, held for each 1,000 tokens", held.megabytes_of_1000, "MB"),
        ]
    return rows


def _ask_all(loaded: LoadedPair, limit_bytes: int, system: str, mode: Mode, timed: _Timed) -> None:
    loaded.session = Session(loaded.target, loaded.drafter, limit_bytes)
    chats = [(ChatMessage("system", system), ChatMessage("user", question)) for question in _QUESTIONS]
    timed.first.append(_ask(loaded, chats[0], mode)[0])
    tokens = loaded.session.length
    timed.other.append(_ask(loaded, _OTHER_CHAT, mode)[0])
    timed.megabytes_of_1000 = loaded.session.held_bytes / tokens / 1e3
    took_ms, timed.reused = _ask(loaded, chats[1], mode)
    timed.again.append(took_ms)


def _ask(loaded: LoadedPair, messages: tuple[ChatMessage, ...], mode: Mode) -> tuple[float, int]:
    """Time to the first token in milliseconds, from the rendering of the prompt on; and tokens reused."""
    began_s = time.perf_counter()
    options = GenerateOptions(mode=mode, max_tokens=2)
    *_, done = Answer(loaded, Generate(loaded.pair, messages, options), lambda: False).events()
    assert isinstance(done, Done)
    return (time.perf_counter() - began_s - done.decode_s) * 1e3, done.reused_tokens


def _system_prompt(loaded: LoadedPair, words: str, length: int) -> str:
    """So many words that the rendered system prompt has about `length` tokens."""
    parts = words.split()
    fewest, most = 1, length
    while fewest < most:
        count = (fewest + most) // 2
        text = " ".join(parts[number % len(parts)] for number in range(count))
        if len(render_prompt(loaded.tokenizer, [ChatMessage("system", text)]).ids) < length:
            fewest = count + 1
        else:
            most = count
    return " ".join(parts[number % len(parts)] for number in range(fewest))
