"""What a question writes in the store, beside other windows that write there."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.chats.asking import Work, another_answer, ask, question, same_answer
from app.chats.session import Session
from core.chats import ChatStore, Message
from core.errors import MissingChat


def asked_once() -> tuple[ChatStore, Session, Message, Message]:
    """A chat with a question and the answer that has begun."""
    store = ChatStore.in_memory()
    chat = store.create()
    first = store.messages.add_user(chat.id, None, "Why?")
    return store, Session(chat), first, store.messages.begin_answer(chat.id, first.id)


@pytest.mark.parametrize("asked", ["another answer", "the same answer"])
def test_what_was_asked_is_shown_whatever_another_window_does_meanwhile(asked: str) -> None:
    store, session, first, answer = asked_once()
    work = another_answer(first.id) if asked == "another answer" else same_answer(answer.id)

    def beside(store: ChatStore, chat_id: int, pair: str) -> int:
        wanted = work(store, chat_id, pair)
        other = store.messages.add_user(chat_id, None, "What another window asks")
        store.messages.begin_answer(chat_id, other.id)
        return wanted

    _, path = ask(store, session, beside)
    assert [message.content for message in path[:-1]] == ["Why?"]
    assert (path[-1].id == answer.id) == (asked == "the same answer")
    assert path[-1].parent_id == first.id
    store.close()


@pytest.mark.parametrize("asked", ["a question", "another answer", "the same answer"])
def test_what_is_asked_in_a_chat_that_was_just_deleted_brings_it_back(asked: str) -> None:
    store, session, first, answer = asked_once()
    works: dict[str, Work] = {
        "a question": question(answer.id, None, "And why?", ()),
        "another answer": another_answer(first.id),
        "the same answer": same_answer(answer.id),
    }
    assert session.chat_id is not None
    store.delete(session.chat_id)
    assert store.page(10) == ()
    ask(store, session, works[asked])
    assert [chat.id for chat in store.page(10)] == [session.chat_id]
    store.close()


def test_another_window_sees_a_question_with_its_answer_or_neither(tmp_path: Path) -> None:
    store, other = (ChatStore.open(tmp_path / "chats.sqlite3") for _ in range(2))
    session = Session()
    seen = []

    def watched(store: ChatStore, chat_id: int, pair: str) -> int:
        answer_id = question(None, None, "Why?", ())(store, chat_id, pair)
        seen.append(other.page(10))
        return answer_id

    chat, path = ask(store, session, watched)
    assert seen == [()]
    assert session.chat is not None
    assert session.chat.id == chat.id
    assert [message.role for message in path] == ["user", "assistant"]
    assert other.messages.path(chat.id) == path
    store.close()
    other.close()


def test_a_question_that_cannot_be_kept_whole_leaves_nothing() -> None:
    store = ChatStore.in_memory()
    session = Session()

    def broken(store: ChatStore, chat_id: int, pair: str) -> int:
        question(None, None, "Why?", ())(store, chat_id, pair)
        raise MissingChat("It is gone.")

    with pytest.raises(MissingChat):
        ask(store, session, broken)
    assert session.chat is None
    assert store.page(10) == ()
    _, path = ask(store, session, question(None, None, "Why?", ()))
    assert [message.content for message in path] == ["Why?", ""]
    store.close()
