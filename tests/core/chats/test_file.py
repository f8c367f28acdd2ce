"""The file: damaged, foreign, from another version, held by others, on a full disk or one that may not be written."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from core.chats import ChatStore, schema
from core.chats import database as database_module
from core.chats.attach import TextFile
from core.errors import ChatsBusy, ChatsDiskFull, ChatsNotWritten, ChatsReadOnly, ChatsTooNew, CorruptChats
from core.lock import held_alone

RENAME = ("ALTER TABLE chats ADD COLUMN colour TEXT NOT NULL DEFAULT 'none'", "UPDATE chats SET colour = 'red'")


def fill(file, title="kept"):
    store = ChatStore.open(file)
    question = store.messages.add_user(store.create().id, None, title)
    store.messages.finish(store.messages.begin_answer(store.page(1)[0].id, question.id).id, f"answer to {title}")
    store.close()


def titles(file):
    store = ChatStore.open(file)
    found = [chat.title for chat in store.page(10)]
    store.close()
    return found


def dump(file):
    connection = sqlite3.connect(file)
    rows = (
        connection.execute("SELECT * FROM chats").fetchall() + connection.execute("SELECT * FROM messages").fetchall()
    )
    connection.close()
    return rows


def files(file):
    return sorted(path.name for path in file.parent.iterdir())


# ------------------------------------------------------------------ versions


def test_a_migration_that_was_released_never_changes():
    digests = [hashlib.sha256("\n".join(m).encode()).hexdigest()[:16] for m in schema.MIGRATIONS]
    assert digests == ["e784130f6dc67f7e", "9d6ea1d4f9c51500"]


@pytest.mark.parametrize("start", range(len(schema.MIGRATIONS) + 1))
def test_a_file_of_every_version_is_brought_to_the_newest(file, monkeypatch, start):
    later = (*schema.MIGRATIONS, RENAME)
    monkeypatch.setattr(schema, "MIGRATIONS", later[:start])
    if start:
        fill(file)
    before = dump(file) if start else []
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    assert titles(file) == (["kept"] if start else [])
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(later),)
    assert connection.execute("SELECT count(*) FROM chats WHERE colour = 'red'").fetchone() == (1 if start else 0,)
    connection.close()
    assert [row[:13] for row in dump(file)] == [row[:13] for row in before]


def test_a_file_of_the_first_version_takes_files_that_are_not_sent(file, monkeypatch):
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
    fill(file)
    monkeypatch.undo()
    store = ChatStore.open(file)
    (chat,) = store.page(2)
    assert store.draft_files(chat.id) == ()
    store.save_draft_files(chat.id, [TextFile("a.txt", "words")])
    assert store.draft_files(chat.id) == (TextFile("a.txt", "words"),)
    store.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(file, monkeypatch):
    fill(file)
    before = dump(file)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, (*RENAME, "INSERT INTO nowhere VALUES (1)")))
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        ChatStore.open(file)
    monkeypatch.undo()
    assert dump(file) == before
    assert titles(file) == ["kept"]


def test_a_newer_programs_file_is_refused_and_not_touched(file, monkeypatch):
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, RENAME))
    fill(file)
    monkeypatch.undo()
    before = file.read_bytes()
    with pytest.raises(ChatsTooNew, match="newer version"):
        ChatStore.open(file)
    assert file.read_bytes() == before
    assert files(file) == ["chats.sqlite3", "chats.sqlite3.lock"]


def test_an_old_window_writes_no_more_once_a_newer_program_changed_the_file(file, monkeypatch):
    fill(file)
    old = ChatStore.open(file)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, RENAME))
        new = ChatStore.open(file)
        with pytest.raises(ChatsTooNew):
            old.create()
        with pytest.raises(ChatsTooNew):
            old.page(10)
        old.close()
        assert [chat.title for chat in new.page(10)] == ["kept"]
        new.close()


# -------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"not a database" + data[14:],
        lambda data: b"\0" * len(data),
        lambda data: os.urandom(len(data)),
        lambda data: data[:100] + b"\xff" * 4096 + data[4196:],
    ],
    ids=["text", "zeros", "noise", "first pages"],
)
def test_a_damaged_file_is_set_aside_whole_and_the_user_is_told(file, damage):
    fill(file)
    broken = damage(file.read_bytes())
    file.write_bytes(broken)
    store = ChatStore.open(file)
    assert store.aside.problem.kind == "CorruptChats"
    (kept,) = file.parent.glob("*damaged*.sqlite3")
    assert kept.name in store.aside.problem.sentence
    assert kept.read_bytes() == broken
    assert store.page(10) == ()
    store.create()
    store.close()
    again = ChatStore.open(file)
    assert (again.aside, len(again.page(10))) == (None, 1)
    again.close()


def test_two_damaged_files_of_one_second_are_both_kept(file):
    for content in (b"first " * 200, b"second " * 200):
        file.write_bytes(content)
        ChatStore.open(file).close()
    kept = {path.read_bytes() for path in file.parent.glob("*damaged*.sqlite3")}
    assert kept == {b"first " * 200, b"second " * 200}


def test_another_programs_database_is_not_written_to(file):
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE recipes (name)")
    connection.close()
    content = file.read_bytes()
    store = ChatStore.open(file)
    assert "damaged" in store.aside.problem.sentence
    store.close()
    assert content in {path.read_bytes() for path in file.parent.iterdir()}


def overwrite(file, start, length):
    with file.open("r+b") as raw:
        raw.seek(start)
        raw.write(b"\xa5" * length)


def test_damage_met_while_running_is_told_and_the_next_start_sets_the_file_aside(file):
    fill(file, "long " * 100_000)
    overwrite(file, file.stat().st_size // 2, 50_000)
    store = ChatStore.open(file)
    assert store.aside is None
    with pytest.raises(CorruptChats, match="damaged"):
        store.messages.path(store.page(1)[0].id)
    store.close()
    again = ChatStore.open(file)
    assert "was kept as" in again.aside.problem.sentence
    again.close()
    assert len(list(file.parent.glob("*damaged*.sqlite3"))) == 1
    assert titles(file) == []


def test_damage_met_while_the_chats_are_made_ready_sets_the_file_aside_at_once(file):
    fill(file)
    connection = sqlite3.connect(file)
    page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'messages_running'").fetchone()[0]
    connection.close()
    overwrite(file, (page - 1) * 4096, 4096)
    store = ChatStore.open(file)
    assert "was kept as" in store.aside.problem.sentence
    store.close()


def test_a_damaged_search_index_is_made_again(file):
    fill(file)
    connection = sqlite3.connect(file)
    connection.execute("UPDATE message_index_data SET block = x'ff00ff00' WHERE id > 10")
    connection.commit()
    connection.close()
    store = ChatStore.open(file)
    with pytest.raises(CorruptChats):
        store.search("answer")
    store.close()
    again = ChatStore.open(file)
    assert again.aside is None
    assert len(again.search("answer")) == 1
    again.close()


def test_an_empty_file_is_a_new_one(file):
    file.touch()
    assert titles(file) == []


# ------------------------------------------------------- others, disk, rights


def test_a_file_that_another_program_holds_is_told_of(file, monkeypatch):
    fill(file)
    monkeypatch.setattr(database_module, "_BUSY_TIMEOUT_S", 0.05)
    store = ChatStore.open(file)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ChatsBusy, match="Another program"):
        store.create()
    assert len(store.page(10)) == 1
    other.execute("ROLLBACK")
    store.create()
    store.close()
    other.close()


def test_a_program_that_does_not_end_its_opening_is_told_of(file, monkeypatch):
    monkeypatch.setattr(database_module, "_BUSY_TIMEOUT_S", 0.05)
    with held_alone(file.with_name("chats.sqlite3.lock"), 1), pytest.raises(ChatsBusy):
        ChatStore.open(file)


def test_a_full_disk_is_told_of_and_what_was_written_stays(file):
    store = ChatStore.open(file)
    chat = store.create()
    asked = store.messages.add_user(chat.id, None, "kept")
    answer = store.messages.begin_answer(chat.id, asked.id)
    store.messages.checkpoint(answer.id, "so far")
    pages = store.database.connection.execute("PRAGMA page_count").fetchone()[0]
    store.database.connection.execute(f"PRAGMA max_page_count = {pages + 5}")
    with pytest.raises(ChatsDiskFull, match="disk is full"):
        store.messages.checkpoint(answer.id, "x" * 1_000_000)
    assert store.messages.get(answer.id).content == "so far"
    store.database.connection.execute("PRAGMA max_page_count = 1000000")
    store.messages.finish(answer.id, "x" * 1_000_000)
    assert len(store.messages.get(answer.id).content) == 1_000_000
    store.close()


def test_a_disk_that_does_not_take_the_bytes_is_told_of(file):
    store = ChatStore.open(file)
    chat = store.create()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        with pytest.raises((ChatsNotWritten, ChatsDiskFull)):
            store.save_draft(chat.id, "x" * 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert store.get(chat.id).draft == ""
    store.save_draft(chat.id, "x" * 1_000_000)
    store.close()


@pytest.fixture
def as_an_ordinary_user():
    """A folder that an ordinary user owns, while the test runs as that user: nobody forbids root anything."""
    folder = Path(tempfile.mkdtemp(prefix="mirror-sd-tests-"))
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o700)
    shutil.rmtree(folder)


def test_a_folder_that_may_not_be_written_is_told_of(as_an_ordinary_user):
    as_an_ordinary_user.chmod(0o500)
    with pytest.raises(ChatsReadOnly, match="cannot be written"):
        ChatStore.open(as_an_ordinary_user / "chats.sqlite3")
    with pytest.raises(ChatsReadOnly):
        ChatStore.open(as_an_ordinary_user / "folder" / "chats.sqlite3")


def test_a_file_that_may_not_be_written_can_be_read_and_stays(as_an_ordinary_user):
    file = as_an_ordinary_user / "chats.sqlite3"
    fill(file)
    content = file.read_bytes()
    file.chmod(0o400)
    assert titles(file) == ["kept"]
    store = ChatStore.open(file)
    with pytest.raises(ChatsReadOnly, match="cannot be written"):
        store.create()
    store.close()
    assert file.read_bytes() == content


def test_a_path_that_cannot_be_is_told_of(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ChatsReadOnly):
        ChatStore.open(tmp_path / "file" / "chats.sqlite3")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ChatsReadOnly):
        ChatStore.open(tmp_path / "folder")


def test_opening_and_closing_leaves_only_the_file_and_its_lock(file):
    fill(file)
    assert files(file) == ["chats.sqlite3", "chats.sqlite3.lock"]


def test_one_store_serves_many_threads(file):
    store = ChatStore.open(file)
    errors = []

    def work(number):
        try:
            for turn in range(20):
                chat = store.create()
                store.messages.add_user(chat.id, None, f"thread {number} turn {turn}")
                store.search("thread")
                store.page(5)
        except Exception as error:  # noqa: BLE001 (the test's own thread shows it)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.page(1000)) == 80
    store.close()


def test_the_chats_need_neither_qt_nor_mlx():
    code = (
        "import sys, core.chats.transfer, core.chats.attach, core.chats.days, core.chats.conversation, core.settings\n"
        "print(sorted({'PySide6', 'mlx', 'ane', 'numpy'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("start", [0, 4096])
def test_what_a_killed_program_left_in_the_log_is_kept_with_a_damaged_file(file, tmp_path, start):
    fill(file, "long " * 5000)
    store = ChatStore.open(file)
    store.save_draft(1, "only in the log")
    copy = tmp_path / "copy" / "chats.sqlite3"
    copy.parent.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(file.with_name(file.name + ending), copy.with_name(copy.name + ending))
    store.close()
    overwrite(copy, start, copy.stat().st_size - start)
    copy.with_name("chats.sqlite3.suspect").touch()
    opened = ChatStore.open(copy)
    kept = opened.aside.path
    assert opened.page(10) == ()
    opened.close()
    log = kept.with_name(f"{kept.name}-wal")
    assert b"only in the log" in kept.read_bytes() + (log.read_bytes() if log.exists() else b"")
