"""Chats as files: JSON that holds everything, Markdown to read."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.chats import ChatOptions, ChatStore, Figures, Sampling
from core.chats.attach import TextFile, with_files
from core.chats.transfer import export_json, export_markdown, import_json
from core.errors import MissingChat, Problem, UnreadableImport


@pytest.fixture
def full(store):
    """A chat that has something of everything; returns its id."""
    options = ChatOptions("Be brief.", Sampling(temperature=0.5, stop=("\n\n",)), "demo", "mirror")
    chat = store.create(options).id
    content, attachments = with_files("What is it?", [TextFile("notes.md", "```\ncode\n```\n")])
    question = store.messages.add_user(chat, None, content, attachments)
    first = store.messages.begin_answer(chat, question.id, "demo")
    store.messages.finish(first.id, "First.", "Hm.\n", figures=Figures(tokens=9, mode="mirror"), state="stopped")
    second = store.messages.begin_answer(chat, question.id, "demo")
    problem = Problem("WorkerDied", "Gone.", "Again.", "signal 9")
    store.messages.finish(second.id, "Sec", state="failed", problem=problem)
    store.messages.choose(first.id)
    store.messages.add_user(chat, first.id, "日本語 🎉 שלום")
    store.messages.add_user(chat, None, "Another beginning")
    store.messages.choose(first.id)
    store.pin(chat, True)
    store.rename(chat, "A *title*")
    store.save_draft(chat, "typed")
    return chat


def test_json_brings_everything_back_in_another_file(store, full, tmp_path):
    exported = export_json(store, [full])
    other = ChatStore.open(tmp_path / "other" / "chats.sqlite3")
    other.create()
    (number,) = import_json(other, exported)
    assert export_json(other, [number]) == exported
    was, now = store.get(full), other.get(number)
    assert msgspec.structs.replace(now, id=was.id) == was
    path, old = other.messages.path(number), store.messages.path(full)
    assert [(m.content, m.thinking, m.attachments, m.state, m.figures, m.pair, len(m.versions)) for m in path] == [
        (m.content, m.thinking, m.attachments, m.state, m.figures, m.pair, len(m.versions)) for m in old
    ]
    assert other.messages.get(path[1].versions[1]).problem == store.messages.get(old[1].versions[1]).problem
    assert [hit.chat.id for hit in other.search("本語")] == [number]
    later = other.create()
    other.messages.add_user(later.id, None, "written after the import")
    assert [hit.chat.id for hit in other.search("after import")] == [later.id]
    other.close()


def test_several_chats_go_into_one_file_and_keep_their_order(store, full):
    second = store.create().id
    ids = import_json(store, export_json(store, [second, full]))
    assert [store.get(number).title for number in ids] == ["", "A *title*"]
    assert import_json(store, export_json(store, [])) == ()


def test_an_answer_that_is_being_written_is_exported_as_it_is(store):
    chat = store.create().id
    question = store.messages.add_user(chat, None, "q")
    answer = store.messages.begin_answer(chat, question.id)
    store.messages.checkpoint(answer.id, "half")
    (copy,) = import_json(store, export_json(store, [chat]))
    assert [(m.content, m.state) for m in store.messages.path(copy)] == [("q", "complete"), ("half", "interrupted")]
    assert store.messages.get(answer.id).state == "running"


def test_a_missing_chat_cannot_be_exported(store):
    with pytest.raises(MissingChat):
        export_json(store, [5])
    with pytest.raises(MissingChat):
        export_markdown(store, 5)


def changed(**fields):
    chat = {"title": "t", "created_ms": 1, "updated_ms": 1, "messages": [], **fields}
    return msgspec.json.encode({"format": "mirror-sd-chats", "version": 1, "chats": [chat]})


def message(role="user", **fields):
    return {"role": role, "content": "c", "created_ms": 1, **fields}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'"' + b"\xed\xa0\x80" + b'"',
        b'{"format": "something", "version": 1, "chats": []}',
        b'{"format": "mirror-sd-chats", "version": "1", "chats": []}',
        changed(title=5),
        changed(created_ms=-1),
        changed(created_ms=10**30),
        changed(unknown=1),
        changed(options={"mode": "fast"}),
        changed(options={"sampling": {"temperature": "hot"}}),
        changed(chosen_root=0),
        changed(messages=[message("system")]),
        changed(messages=[message("assistant")]),
        changed(messages=[message(), message(parent=0)]),
        changed(messages=[message(), message("assistant", parent=1)]),
        changed(messages=[message(), message("assistant", parent=2), message()]),
        changed(messages=[message(chosen_child=0)]),
        changed(messages=[message(chosen_child=9)]),
        changed(messages=[message(), message("assistant", parent=0)], chosen_root=1),
        changed(messages=[message(state="running")]),
        changed(messages=[message(attachments=[{"name": "n", "start": 0, "end": 9}])]),
    ],
)
def test_a_file_that_is_none_of_ours_adds_nothing(store, data):
    with pytest.raises(UnreadableImport, match="no chats that Mirror SD can read"):
        import_json(store, data)
    assert store.page(10) == ()


def test_a_bad_chat_behind_a_good_one_adds_neither(store, full):
    good = msgspec.json.decode(export_json(store, [full]))
    good["chats"].append(msgspec.json.decode(changed(messages=[message("assistant")]))["chats"][0])
    with pytest.raises(UnreadableImport):
        import_json(store, msgspec.json.encode(good))
    assert len(store.page(10)) == 1


def test_a_newer_format_is_told_of(store):
    with pytest.raises(UnreadableImport, match="newer version"):
        import_json(store, b'{"format": "mirror-sd-chats", "version": 2, "future": []}')


@given(data=st.binary(max_size=60))
def test_no_bytes_do_harm(data):
    store = ChatStore.in_memory()
    with pytest.raises(UnreadableImport):
        import_json(store, data)
    store.close()


def test_markdown_shows_the_chosen_path(store, full):
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "TIME", export_markdown(store, full))
    assert text == (
        "# A *title*\n\n"
        "## System prompt\n\nBe brief.\n\n"
        "## You, TIME\n\nnotes.md:\n````\n```\ncode\n```\n````\n\nWhat is it?\n\n"
        "## Answer (demo), TIME\n\n<details><summary>Thinking</summary>\n\nHm.\n\n</details>\n\n"
        "First.\n\n*(stopped)*\n\n"
        "## You, TIME\n\n日本語 🎉 שלום\n"
    )


def test_markdown_of_an_empty_chat_is_its_title(store):
    assert export_markdown(store, store.create().id) == "# Chat\n"
