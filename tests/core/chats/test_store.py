"""The list of chats and what is kept of each."""

from __future__ import annotations

import pytest

from core.chats import ChatOptions, ChatStore, Sampling
from core.chats.attach import TextFile
from core.errors import MissingChat
from core.protocol import GenerateOptions


def titles(chats):
    return [chat.title for chat in chats]


@pytest.fixture
def three(store):
    """Chats with the titles a, b, c, in the order of their messages."""
    for title in "abc":
        store.messages.add_user(store.create().id, None, title)
    return store


def test_the_list_has_pinned_chats_first_and_then_the_last_used(three):
    _, b, a = three.page(10)
    three.pin(a.id, True)
    three.messages.add_user(b.id, None, "b again")
    assert titles(three.page(10)) == ["a", "b again", "c"]


def test_pages_follow_each_other_without_a_gap(three):
    for title in "defg":
        three.messages.add_user(three.create().id, None, title)
    three.pin(three.page(10)[-1].id, True)
    whole, paged = three.page(100), []
    while page := three.page(2, paged[-1] if paged else None):
        paged += page
    assert tuple(paged) == whole
    assert len(whole) == 7


def test_a_page_goes_on_behind_a_chat_that_was_deleted_meanwhile(three):
    first = three.page(1)[0]
    three.delete(first.id)
    assert titles(three.page(10, first)) == ["b", "a"]


def test_a_new_chat_is_empty_and_has_no_title(store):
    chat = store.create()
    assert (chat.title, chat.title_is_automatic, chat.draft, chat.options) == ("", True, "", ChatOptions())
    assert store.messages.path(chat.id) == ()


def test_the_first_message_gives_the_title_until_the_user_does(store):
    chat = store.create()
    store.messages.add_user(chat.id, None, "# How do *tides* work?")
    assert store.get(chat.id).title == "How do tides work?"
    store.messages.add_user(chat.id, None, "An edited first message")
    assert store.get(chat.id).title == "An edited first message"
    assert store.rename(chat.id, " My\n title ") == "My title"
    store.messages.add_user(chat.id, None, "Another")
    renamed = store.get(chat.id)
    assert (renamed.title, renamed.title_is_automatic) == ("My title", False)


def test_an_empty_name_brings_the_automatic_title_back(store):
    chat = store.create()
    assert store.rename(chat.id, "  ") == ""
    store.messages.add_user(chat.id, None, "Tides")
    store.rename(chat.id, "Mine")
    assert store.rename(chat.id, "") == "Tides"
    assert store.get(chat.id).title_is_automatic


def test_options_and_the_unsent_text_are_kept(store, file):
    options = ChatOptions("Be brief.", Sampling(temperature=0.0, max_tokens=7, stop=("\n",)), "demo", "mirror")
    chat = store.create()
    store.set_options(chat.id, options)
    store.save_draft(chat.id, "half a sent")
    store.close()
    again = ChatStore.open(file)
    assert again.get(chat.id).options == options
    assert again.get(chat.id).draft == "half a sent"
    again.close()


def test_a_chats_sampling_goes_before_the_programs():
    sampling = Sampling(temperature=0.0, stop=())
    common = GenerateOptions(temperature=0.7, top_k=40, stop=("x",))
    assert sampling.applied_to(common) == GenerateOptions(temperature=0.0, top_k=40, stop=())


def test_typing_naming_and_pinning_do_not_move_a_chat(three):
    a = three.page(10)[-1]
    three.save_draft(a.id, "x")
    three.rename(a.id, "a!")
    three.set_options(a.id, ChatOptions("prompt"))
    assert titles(three.page(10)) == ["c", "b", "a!"]


def test_a_deleted_chat_comes_back_whole(three):
    b = three.page(10)[1]
    path = three.messages.path(b.id)
    three.delete(b.id)
    assert titles(three.page(10)) == ["c", "a"]
    assert three.search("b") == ()
    three.restore(b.id)
    assert titles(three.page(10)) == ["c", "b", "a"]
    assert three.messages.path(b.id) == path
    assert [hit.chat.id for hit in three.search("b")] == [b.id]


def test_purging_removes_only_what_was_deleted_long_enough_ago(three, monkeypatch):
    _, b, a = three.page(10)
    monkeypatch.setattr("core.chats.database.now_ms", lambda: 5000)
    three.delete(a.id)
    monkeypatch.setattr("core.chats.database.now_ms", lambda: 6000)
    three.delete(b.id)
    assert three.purge(6000) == 1
    three.restore(b.id)
    with pytest.raises(MissingChat):
        three.restore(a.id)
    assert titles(three.page(10)) == ["c", "b"]


def test_a_chat_with_very_many_turns_can_be_shown_and_purged(store):
    chat, parent = store.create(), None
    with store.database.write() as connection:  # one transaction: two thousand of them take the disk seconds
        for turn in range(2000):
            role = "assistant" if turn % 2 else "user"
            parent = connection.execute(
                "INSERT INTO messages (chat_id, parent_id, role, state, created_ms, content) VALUES (?, ?, ?, ?, 0, ?)",
                (chat.id, parent, role, "complete", str(turn)),
            ).lastrowid
    store.messages.choose(parent)
    assert [message.content for message in store.messages.path(chat.id)] == [str(turn) for turn in range(2000)]
    store.delete(chat.id)
    assert store.purge(2**60) == 1


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.get(77),
        lambda store: store.rename(77, "x"),
        lambda store: store.pin(77, True),
        lambda store: store.set_options(77, ChatOptions()),
        lambda store: store.save_draft(77, "x"),
        lambda store: store.delete(77),
        lambda store: store.restore(77),
        lambda store: store.messages.path(77),
        lambda store: store.messages.add_user(77, None, "x"),
    ],
)
def test_a_chat_that_is_gone_is_told_of(store, act):
    with pytest.raises(MissingChat, match="does not exist any more"):
        act(store)


@pytest.mark.usefixtures("clock")
def test_chats_in_memory_work_the_same():
    store = ChatStore.in_memory()
    chat = store.create()
    question = store.messages.add_user(chat.id, None, "Tides?")
    answer = store.messages.begin_answer(chat.id, question.id)
    store.messages.finish(answer.id, "The moon.")
    assert [hit.chat.id for hit in store.search("moon")] == [chat.id]
    assert store.messages.end_interrupted() == 0
    store.close()


def test_files_that_are_not_sent_are_kept_with_their_chat(store):
    chat, other = store.create().id, store.create().id
    files = (TextFile("a.txt", "one"), TextFile("b.txt", "two\n"))
    store.save_draft_files(chat, files)
    assert store.draft_files(chat) == files
    assert store.draft_files(other) == ()
    store.save_draft_files(chat, files[1:])
    assert store.draft_files(chat) == files[1:]
    store.delete(chat)
    assert store.draft_files(chat) == files[1:]  # it may be restored
    store.purge(2**62)
    assert store.draft_files(chat) == ()
    with pytest.raises(MissingChat):
        store.save_draft_files(chat, files)
    store.save_draft_files(other, [TextFile("odd \udc80 name", "\0")])
    assert store.draft_files(other) == (TextFile("odd \ufffd name", "\ufffd"),)
    store.save_draft_files(other, ())
    assert store.draft_files(other) == ()
