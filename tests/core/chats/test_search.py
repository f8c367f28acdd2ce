"""Searching all chats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.chats import ChatStore, Piece
from core.chats.words import pieces, query, segment


def marked(found):
    return "".join(f"[{piece.text}]" if piece.found else piece.text for piece in found)


def say(store, text, title="t"):
    chat = store.create()
    store.messages.add_user(chat.id, None, text)
    store.rename(chat.id, title)
    return chat.id


@pytest.mark.parametrize(
    ("text", "wanted", "snippet"),
    [
        ("Hello wörld, hello", "WORLD hello", "[Hello] [wörld], [hello]"),
        ("speculative decoding", "spec", "[speculative] decoding"),
        ("日本語の全文検索です", "全文検索", "日本語の[全文検索]です"),
        ("日本語の全文検索です", "文", "日本語の全[文]検索です"),
        ("한국어를 배우고 있어요", "배우", "한국어를 [배우]고 있어요"),
        ("ภาษาไทยง่าย", "ไทย", "ภาษา[ไทย]ง่าย"),
        ("שלום עולם", "עולם", "שלום [עולם]"),
        ("party🎉time", "🎉", "party[🎉]time"),
        ("naïve café", "cafe", "naïve [café]"),
        ("uses C++ and x", "c++", "uses [C]++ and x"),
        ("a_b and don't", "don't", "a_b and [don't]"),
        ("\x02\x03\x02odd marks", "odd", "[odd] marks"),
    ],
)
def test_words_are_found_and_marked(store, text, wanted, snippet):
    say(store, text)
    (hit,) = store.search(wanted)
    assert marked(hit.snippet) == snippet


def test_all_words_must_stand_in_one_message(store):
    chat = say(store, "apples only")
    say(store, "pears only")
    both = say(store, "apples and pears")
    assert [hit.chat.id for hit in store.search("pears apples")] == [both]
    assert {hit.chat.id for hit in store.search("apples")} == {chat, both}


def test_titles_come_first_and_every_chat_comes_once(store):
    titled = say(store, "nothing of it", "All about tides")
    chat = say(store, "tides one")
    store.messages.add_user(chat, None, "tides two")
    newest = store.messages.path(chat)[0].id
    by_title, by_message = store.search("tides")
    assert (by_title.chat.id, marked(by_title.title), by_title.message_id) == (titled, "All about [tides]", None)
    assert (by_message.chat.id, by_message.message_id, marked(by_message.snippet)) == (chat, newest, "[tides] two")


def test_no_more_chats_than_wanted_are_found(store):
    chats = [say(store, "word") for _ in range(5)]
    assert [hit.chat.id for hit in store.search("word", 2)] == [chats[4], chats[3]]
    titled = say(store, "x", "word")
    assert [hit.chat.id for hit in store.search("word", 1)] == [titled]


def test_a_long_message_gives_a_short_snippet(store):
    say(store, "filler " * 100_000 + "needle " + "filler " * 100)
    (hit,) = store.search("needle")
    assert len(marked(hit.snippet)) < 200
    assert "[needle]" in marked(hit.snippet)


def test_a_renamed_chat_is_found_by_its_new_title_only(store):
    chat = say(store, "x", "old")
    store.rename(chat, "new")
    assert store.search("old") == ()
    assert [hit.chat.id for hit in store.search("new")] == [chat]


def test_thinking_is_not_searched_and_answers_are_once_they_ended(store):
    chat = store.create()
    question = store.messages.add_user(chat.id, None, "q")
    answer = store.messages.begin_answer(chat.id, question.id)
    store.messages.checkpoint(answer.id, "growing", "pondering")
    assert store.search("growing") == ()
    store.messages.finish(answer.id, "grown", "pondering")
    assert store.search("growing") == store.search("pondering") == ()
    assert len(store.search("grown")) == 1


@pytest.mark.parametrize(
    "text", ["", "  ", '"', "AND", "NOT (", "NEAR(a b", "a* OR", "body:x", "^", "++", "-", "\0", "x" * 100_000]
)
def test_no_text_is_a_syntax_error(store, text):
    say(store, "something else")
    assert store.search(text) == ()


@pytest.fixture(scope="module")
def some_chats():
    store = ChatStore.in_memory()
    for text in ("alpha beta", "日本語 🎉", "quotes \" and ' here"):
        say(store, text)
    yield store
    store.close()


@given(text=st.text(st.characters(codec=None), max_size=40))
def test_whatever_is_typed_is_searched_for(some_chats, text):
    some_chats.search(text)


@given(text=st.text(st.sampled_from("ab日🎉 \"*()'-:^{}\0"), min_size=1, max_size=20))
def test_a_message_is_found_by_its_own_text(text):
    store = ChatStore.in_memory()
    chat = say(store, text)
    # NUL is stored as U+FFFD, a symbol like emoji.
    words = any(character.isalnum() or character in "🎉\0" for character in text)
    assert [hit.chat.id for hit in store.search(text)] == ([chat] if words else [])
    store.close()


@given(text=st.text())
def test_borders_between_words_leave_the_text_as_it_was(text):
    clean = text.translate(str.maketrans("", "", "\x02\x03\x1f"))
    assert "".join(piece.text for piece in pieces(segment(clean))) == clean


def test_marks_cut_a_text_into_pieces():
    assert pieces("\x02a\x03b\x02\x1fc\x03") == (Piece("a", True), Piece("b", False), Piece("c", True))
    assert pieces("") == ()


def test_a_query_is_words_in_quotes():
    assert query('say "AND" it') == '"say" """AND""" "it"*'
    assert query(" \n") is None
