"""How long the chats' file takes: listing, searching, opening a chat, keeping an answer, opening the file."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from core.bench.rows import Row, row, single
from core.chats import ChatStore
from core.chats.transfer import ChatsFile, ExportedChat, ExportedMessage, import_json

_MESSAGE_WORDS = (10, 180)
_FIRST_MS = 1_700_000_000_000
_PAGE = 50
_RARE = "zanzibar"


def chats_rows(path: Path, chats: int, messages: int, runs: int) -> list[Row]:
    """Fill the new file `path` with chats of made-up words and measure on it: medians over `runs`, in milliseconds."""
    store = ChatStore.open(path)
    data = _export(chats, messages)
    rows = [
        _timed("import of all", lambda: import_json(store, data), 1),
        single("size of the file", path.stat().st_size / 1e6, "MB"),
    ]
    first = store.page(_PAGE)
    cases: dict[str, Callable[[], object]] = {
        f"first page of {_PAGE} chats": lambda: store.page(_PAGE),
        "next page": lambda: store.page(_PAGE, first[-1]),
        "open a chat": lambda: store.messages.path(first[0].id),
        "search: a common word": lambda: store.search(_WORDS[0]),
        "search: two words": lambda: store.search(f"{_WORDS[3]} {_WORDS[40]}"),
        "search: a rare word": lambda: store.search(_RARE),
        "search: one letter": lambda: store.search("s"),
        "search: two letters": lambda: store.search("sa"),
        "search: nothing to find": lambda: store.search("nowhere"),
    }
    rows += [_timed(name, case, runs) for name, case in cases.items()]
    rows += _writing(store, runs)
    store.close()
    rows.append(_timed("open the file", lambda: ChatStore.open(path).close(), runs))
    return rows


def _timed(name: str, case: Callable[[], object], runs: int) -> Row:
    took_ms = []
    for _ in range(runs):
        began = time.perf_counter()
        case()
        took_ms.append((time.perf_counter() - began) * 1e3)
    return row(name, "ms", took_ms)


def _writing(store: ChatStore, runs: int) -> list[Row]:
    chat = store.create()
    question = store.messages.add_user(chat.id, None, "How long?")
    answer = store.messages.begin_answer(chat.id, question.id)
    lengths = itertools.count()

    def text(length: int) -> str:
        return "word " * (length // 5 + next(lengths))

    messages = store.messages
    return [
        _timed("new chat and message", lambda: messages.add_user(store.create().id, None, "Hello"), runs),
        _timed("checkpoint of 10 kB", lambda: messages.checkpoint(answer.id, text(10_000)), runs),
        _timed("checkpoint of 1 MB", lambda: messages.checkpoint(answer.id, text(1_000_000)), runs),
        _timed("finish of 1 MB", lambda: messages.finish(answer.id, text(1_000_000)), runs),
    ]


def _export(chats: int, messages: int) -> bytes:
    choice = random.Random(0)
    made = tuple(_chat(choice, number, messages) for number in range(chats))
    return msgspec.json.encode(ChatsFile("mirror-sd-chats", 1, made))


def _chat(choice: random.Random, number: int, messages: int) -> ExportedChat:
    began_ms = _FIRST_MS + number * 3_600_000
    made = tuple(
        ExportedMessage(
            role="assistant" if place % 2 else "user",
            content=_text(choice) + (f" {_RARE}" if number % 100 == 0 and place == 0 else ""),
            created_ms=began_ms + place * 1000,
            parent=place - 1 if place else None,
            chosen_child=place + 1 if place + 1 < messages else None,
        )
        for place in range(messages)
    )
    title = f"Chat {number}"  # so that searches look into the messages
    return ExportedChat(title, began_ms, began_ms + messages * 1000, made, chosen_root=0)


def _text(choice: random.Random) -> str:
    """Words of which few are frequent and many rare, as in prose."""
    count = choice.randint(*_MESSAGE_WORDS)
    return " ".join(_WORDS[int(len(_WORDS) ** choice.random()) - 1] for _ in range(count))


def _vocabulary() -> list[str]:
    choice = random.Random(1)
    return [
        "".join(choice.choice("bdfklmnprst") + choice.choice("aeiou") for _ in range(1 + rank % 4))
        for rank in range(4000)
    ]


_WORDS = _vocabulary()
