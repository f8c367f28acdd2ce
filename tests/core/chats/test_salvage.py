"""What can be read of damaged files comes back; what cannot costs nothing else."""

from __future__ import annotations

import os
import random
import sqlite3

import pytest

from core.chats import ChatStore, schema
from core.chats.salvage import Salvaged, salvage

CHATS, TURNS = 20, 6


def fill(file):
    """Chats of six messages each, enough for some pages of every table."""
    store = ChatStore.open(file)
    for number in range(CHATS):
        chat = store.create()
        parent = None
        for turn in range(TURNS // 2):
            question = store.messages.add_user(chat.id, parent, f"question {number}.{turn} " + "x" * 300)
            answer = store.messages.begin_answer(chat.id, question.id, "demo")
            store.messages.finish(answer.id, f"answer {number}.{turn} " + "y" * 300)
            parent = answer.id
    store.close()


def shown(store):
    return {
        chat.title.split()[1]: [message.content for message in store.messages.path(chat.id)]
        for chat in store.page(1000)
    }


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of a sound file, and what it shows."""
    file = tmp_path_factory.mktemp("sound") / "chats.sqlite3"
    fill(file)
    store = ChatStore.open(file)
    content = shown(store)
    store.close()
    return file.read_bytes(), content


@pytest.fixture
def damaged(sound, tmp_path):
    """A file that is still sound, to be damaged; the test's store is another. And what it shows."""
    path = tmp_path / "damaged.sqlite3"
    path.write_bytes(sound[0])
    return path, sound[1]


def overwrite_page_of(file, name, which):
    """Overwrite one page of a table or index: the `which`-th leaf."""
    connection = sqlite3.connect(file)
    pages = connection.execute(
        "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path", (name,)
    ).fetchall()
    connection.close()
    with file.open("r+b") as raw:
        raw.seek((pages[which][0] - 1) * 4096)
        raw.write(b"\xa5" * 4096)


def test_a_sound_file_comes_back_whole(store, damaged):
    path, content = damaged
    assert salvage(path, store) == Salvaged(CHATS, 0)
    assert shown(store) == content


@pytest.mark.parametrize("which", range(1, 5))
def test_a_lost_page_of_messages_costs_only_the_messages_on_it(store, damaged, which):
    path, content = damaged
    overwrite_page_of(path, "messages", which)
    before = path.read_bytes()
    result = salvage(path, store)
    found = shown(store)
    assert 1 <= result.lost <= 30
    assert sum(found.get(number) == messages for number, messages in content.items()) >= CHATS - 5
    for number, messages in found.items():
        assert messages == content[number][: len(messages)]
    beginnings = store.database.connection.execute("SELECT content FROM messages WHERE parent_id IS NULL").fetchall()
    assert {text.split()[1].partition(".")[2] for (text,) in beginnings} == {"0"}
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["messages_by_parent", "chats_listed", "message_index_data", "sqlite_sequence"])
def test_a_lost_index_costs_nothing(store, damaged, name):
    path, content = damaged
    overwrite_page_of(path, name, 0)
    assert salvage(path, store).chats == CHATS
    assert shown(store) == content


@pytest.mark.parametrize("content", [b"", b"no database " * 1000, os.urandom(8192)], ids=["empty", "text", "noise"])
def test_of_other_files_nothing_comes_and_nothing_breaks(store, tmp_path, content):
    path = tmp_path / "kept.sqlite3"
    path.write_bytes(content)
    assert salvage(path, store) == Salvaged(0, 0)
    assert store.page(10) == ()


def test_deleted_chats_stay_deleted(store, damaged):
    path, content = damaged
    other = ChatStore.open(path)
    gone = other.page(1)[0]
    other.delete(gone.id)
    other.close()
    assert salvage(path, store).chats == CHATS - 1
    assert set(content) - set(shown(store)) == {gone.title.split()[1]}


def test_where_the_chosen_message_is_lost_its_newest_sibling_is_shown(store, tmp_path):
    path = tmp_path / "damaged.sqlite3"
    other = ChatStore.open(path)
    chat = other.create().id
    question = other.messages.add_user(chat, None, "q")
    answers = [other.messages.begin_answer(chat, question.id).id for _ in range(3)]
    for number in answers:
        other.messages.finish(number, f"a{number}")
    other.messages.add_user(chat, None, "lost")
    other.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("DROP TRIGGER message_removed")
    connection.execute("DELETE FROM messages WHERE content = 'lost' OR id = ?", (answers[2],))
    connection.commit()
    connection.close()
    assert salvage(path, store).chats == 1
    assert [message.content for message in store.messages.path(store.page(1)[0].id)] == ["q", f"a{answers[1]}"]


def test_random_damage_never_breaks_more_than_the_file(tmp_path, sound):
    choice = random.Random(8)
    for number in range(30):
        broken = bytearray(sound[0])
        for _ in range(choice.randrange(1, 6)):
            start = choice.randrange(100, len(broken) - 600)
            broken[start : start + 500] = choice.randbytes(500)
        file = tmp_path / f"{number}" / "chats.sqlite3"
        file.parent.mkdir()
        file.write_bytes(broken)
        file.with_name("chats.sqlite3.suspect").touch()
        store = ChatStore.open(file)
        if store.aside is not None:
            assert store.aside.path.read_bytes() == broken
            salvage(store.aside.path, store)
        assert store.database.connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        for chat in store.page(1000):
            store.messages.path(chat.id)
        store.search("question")
        store.close()


def test_a_damaged_file_of_the_first_version_is_read_too(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
    fill(tmp_path / "old.sqlite3")
    monkeypatch.undo()
    store = ChatStore.open(tmp_path / "new.sqlite3")
    assert salvage(tmp_path / "old.sqlite3", store).chats == CHATS
    assert len(shown(store)) == CHATS
    store.close()
