"""A chat from its Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.chats import ChatOptions, ChatStore
from core.chats.markdown import import_markdown
from core.chats.transfer import export_markdown
from core.errors import UnreadableImport


def filled(store) -> int:
    chat = store.create(ChatOptions("Be\n\nbrief.")).id
    question = store.messages.add_user(chat, None, "## A heading of mine\n\nWhy?")
    answer = store.messages.begin_answer(chat, question.id, "A pair (4-bit)")
    store.messages.finish(answer.id, "Because.\n\n```md\n# x\n```", "Let me\n\nsee.")
    second = store.messages.add_user(chat, answer.id, "And?")
    stopped = store.messages.begin_answer(chat, second.id)
    store.messages.finish(stopped.id, "Half an", state="stopped")
    store.rename(chat, "My title")
    return chat


def test_what_was_exported_comes_back_as_it_was(store):
    text = export_markdown(store, filled(store))
    chat = import_markdown(store, text.encode())
    assert export_markdown(store, chat) == text
    path = store.messages.path(chat)
    assert [m.role for m in path] == ["user", "assistant", "user", "assistant"]
    assert (path[1].content, path[1].thinking, path[1].pair) == (
        "Because.\n\n```md\n# x\n```",
        "Let me\n\nsee.",
        "A pair (4-bit)",
    )
    assert (path[3].content, path[3].state) == ("Half an", "stopped")
    assert store.get(chat).title == "My title"
    assert store.get(chat).options.system_prompt == "Be\n\nbrief."
    assert chat in [hit.chat.id for hit in store.search("because")]


def test_line_ends_of_another_system_and_a_byte_order_mark_do_no_harm(store):
    text = export_markdown(store, filled(store))
    chat = import_markdown(store, b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert export_markdown(store, chat) == text


def test_the_title_is_automatic_where_there_is_none(store):
    chat = import_markdown(store, b"## You, 2026-01-02 03:04\n\nWhat is *this*?\n")
    assert store.get(chat).title == "What is this?"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"# A title and no turns\n\nText",
        b"\xff\xfe\x00binary",
        b"## Answer, 2026-01-02 03:04\n\nAn answer to nothing",
        b"## You, 2026-01-02 03:04\n\none\n\n## You, 2026-01-02 03:05\n\ntwo",
        b"## You, 2026-99-99 99:99\n\nno date",
    ],
)
def test_anything_else_is_refused_and_nothing_is_added(store, data):
    with pytest.raises(UnreadableImport):
        import_markdown(store, data)
    assert store.page(9) == ()


LINES = [
    "# T", "## You, 2026-01-02 03:04", "## Answer, 2026-01-02 03:05", "## Answer (a) (b), 9999-12-31 23:59",
    "## You, 0001-01-01 00:00", "## System prompt", "<details><summary>Thinking</summary>", "</details>", "*(stopped)*",
    "", "text", "\0", "```", "\u2028", "\x1f",
]  # fmt: skip


@settings(deadline=None)
@given(lines=st.lists(st.sampled_from(LINES), max_size=12))
def test_any_markdown_is_taken_whole_or_refused(lines):
    store = ChatStore.in_memory()
    try:
        chat = import_markdown(store, "\n".join(lines).encode())
    except UnreadableImport:
        assert not store.page(1)
    else:
        assert store.messages.path(chat)
    store.close()
