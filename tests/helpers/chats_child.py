"""Programs that write chats until they are killed, or for a while: `chats_child.py TASK FILE [ARGUMENT]`.

`answers`: ask and answer without end; prints what is known to be on the disk. `many FILE NAME`: fifty chats of NAME
with an answer each. `migrate`: open the file with one migration more, wait in the middle of it.
"""

from __future__ import annotations

import itertools
import sys
import threading
from pathlib import Path

from core.chats import ChatStore, schema


def tell(*words: object) -> None:
    print(*words, flush=True)


def answers(file: Path) -> None:
    store = ChatStore.open(file)
    for turn in itertools.count():
        chat = store.create()
        question = store.messages.add_user(chat.id, None, f"question {turn}")
        tell("asked", chat.id, question.id)
        answer = store.messages.begin_answer(chat.id, question.id)
        for words in range(1, 30):
            store.messages.checkpoint(answer.id, "word " * words * 50)
            tell("kept", answer.id, words * 50)
        store.messages.finish(answer.id, "word " * 1500)
        tell("finished", answer.id, 1500)


def many(file: Path, name: str) -> None:
    store = ChatStore.open(file)
    tell("open")
    sys.stdin.readline()
    for number in range(50):
        chat = store.create()
        question = store.messages.add_user(chat.id, None, f"{name} {number}")
        answer = store.messages.begin_answer(chat.id, question.id)
        store.messages.checkpoint(answer.id, "half")
        store.messages.finish(answer.id, f"answer to {name} {number}")
    store.close()


def migrate(file: Path) -> None:
    schema.MIGRATIONS = (*schema.MIGRATIONS, ("UPDATE chats SET title = 'migrated'", "SELECT 1"))
    plain = schema.migrate

    def waiting(connection):
        def at(_):
            tell("in the middle")
            threading.Event().wait()

        connection.create_function("segment", 1, at)
        plain(connection)

    schema.migrate = waiting
    ChatStore.open(file)


if __name__ == "__main__":
    task, path, *rest = sys.argv[1:]
    {"answers": answers, "many": many, "migrate": migrate}[task](Path(path), *rest)
