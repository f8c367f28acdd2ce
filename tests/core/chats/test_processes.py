"""Real processes on one file: killed at any moment, or writing at once."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from core.chats import ChatStore
from core.chats.words import segment

CHILD = Path(__file__).parents[2] / "helpers" / "chats_child.py"


@pytest.fixture
def start():
    children = []

    def started(*arguments):
        command = [sys.executable, str(CHILD), *map(str, arguments)]
        child = subprocess.Popen(
            command,
            cwd=CHILD.parents[2],
            env={"PYTHONPATH": "."},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        return child

    yield started
    for child in children:
        child.kill()
        child.communicate()


def check_whole(file):
    """Raises where the file is damaged or its search index does not agree with the messages."""
    connection = sqlite3.connect(file)
    connection.create_function("segment", 1, segment, deterministic=True)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    for index in ("title_index", "message_index"):
        connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
    connection.close()


def killed_after(child, lines, further_s):
    """Kill the child at some moment after so many lines; returns all it told."""
    told = [child.stdout.readline() for _ in range(lines)]
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(further_s)
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate()
    return [line.split() for line in [*told, *rest.splitlines(keepends=True)] if line.endswith("\n")]


@pytest.mark.slow
def test_kill_9_loses_no_more_than_what_came_after_the_last_checkpoint(file, start):
    choice = random.Random(20)
    interrupted = 0
    for _ in range(20):
        told = killed_after(start("answers", file), choice.randrange(1, 60), choice.uniform(0, 0.05))
        store = ChatStore.open(file)
        assert store.aside is None
        kept = {}
        for word, *numbers in told:
            if word == "asked":
                chat_id, message_id = map(int, numbers)
                assert message_id in [message.id for message in store.messages.path(chat_id)]
            else:
                kept[int(numbers[0])] = (word, int(numbers[1]))
        for answer_id, (word, words) in kept.items():
            answer = store.messages.get(answer_id)
            assert answer.content.count("word ") >= words
            assert answer.state in (("complete",) if word == "finished" else ("complete", "interrupted"))
            interrupted += answer.state == "interrupted"
        states = store.database.connection.execute("SELECT DISTINCT state FROM messages").fetchall()
        assert ("running",) not in states
        store.close()
        check_whole(file)
    assert interrupted >= 5  # else the moments were badly chosen
    assert sorted(path.name for path in file.parent.iterdir()) == ["chats.sqlite3", "chats.sqlite3.lock"]


def test_a_program_killed_while_it_brings_the_file_to_a_new_version_leaves_the_old_one(file, start):
    store = ChatStore.open(file)
    store.messages.add_user(store.create().id, None, "kept")
    store.close()
    child = start("migrate", file)
    assert child.stdout.readline() == "in the middle\n"
    child.kill()
    child.wait()
    again = ChatStore.open(file)
    assert [chat.title for chat in again.page(10)] == ["kept"]
    again.close()
    check_whole(file)


def test_two_programs_write_at_once_and_nothing_is_lost(file, start):
    children = {name: start("many", file, name) for name in ("one", "two")}
    for child in children.values():
        assert child.stdout.readline() == "open\n"
    mine = ChatStore.open(file)
    for child in children.values():
        child.stdin.write("go\n")
        child.stdin.flush()
    for number in range(20):
        mine.messages.add_user(mine.create().id, None, f"mine {number}")
    for child in children.values():
        assert child.wait(60) == 0
    titles = [chat.title for chat in mine.page(1000)]
    expected = [f"{name} {number}" for name in ("one", "two") for number in range(50)] + [
        f"mine {n}" for n in range(20)
    ]
    assert sorted(titles) == sorted(expected)
    assert {mine.messages.path(hit.chat.id)[-1].state for hit in mine.search("answer", 1000)} == {"complete"}
    assert len(mine.search("answer", 1000)) == 100
    mine.close()
    check_whole(file)


def test_two_programs_may_make_the_file_at_once(file, start):
    children = [start("many", file, str(number)) for number in range(3)]
    for child in children:
        assert child.stdout.readline() == "open\n"
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        assert child.wait(60) == 0
    store = ChatStore.open(file)
    assert len(store.page(1000)) == 150
    store.close()
