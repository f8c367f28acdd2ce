"""What a question writes in the store. Called in the store's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.chats.session import Session
from core.chats import Attachment, Chat, ChatStore, Message

Work = Callable[[ChatStore, int, str], int]
"""Writes what is asked in a chat, of the named pair; returns the id of the answer that is to be written."""


def question(last: int | None, replaced: Message | None, content: str, attachments: tuple[Attachment, ...]) -> Work:
    """A new message of the user behind the message `last`, or another version of `replaced`."""

    def work(store: ChatStore, chat_id: int, pair: str) -> int:
        above = replaced.parent_id if replaced else last
        if above is not None and store.messages.get(above).role == "user":  # the program ended before its answer
            above = store.messages.begin_answer(chat_id, above).id
            store.messages.finish(above, "", state="interrupted")
        message = store.messages.add_user(chat_id, above, content, attachments)
        if replaced is None:
            store.save_draft(chat_id, "")
            store.save_draft_files(chat_id, ())
        return store.messages.begin_answer(chat_id, message.id, pair).id

    return work


def another_answer(question_id: int) -> Work:
    """Another version of the answer to a message."""
    return lambda store, chat_id, pair: store.messages.begin_answer(chat_id, question_id, pair).id


def same_answer(answer_id: int) -> Work:
    """Go on writing an answer."""

    def work(store: ChatStore, _chat_id: int, _pair: str) -> int:
        store.messages.resume_answer(answer_id)
        return answer_id

    return work


def ask(store: ChatStore, session: Session, work: Work) -> tuple[Chat, tuple[Message, ...]]:
    """Do the work in the session's chat, whole or not at all; returns the chat and its messages down to the answer.

    Another window may have chosen others meanwhile: this one shows what it has asked.
    """
    options = session.options
    with in_chat(store, session) as chat:
        store.restore(chat.id)  # whoever deleted it meanwhile: it is in use
        answer_id = work(store, chat.id, options.pair)
        if chat.options != options:
            store.set_options(chat.id, options)
        return store.get(chat.id), store.messages.path_to(answer_id)


@contextmanager
def in_chat(store: ChatStore, session: Session) -> Iterator[Chat]:
    """A transaction in the session's chat, which is made where there is none yet: no other window sees a part of it."""
    with store.database.write():
        chat = session.chat or store.create(session.options)
        yield chat
    session.chat = session.chat or chat  # before any other work of this window


def delete_empty(store: ChatStore, chat_id: int) -> None:
    """Delete the chat, unless another window has written in it."""
    if not (store.messages.path(chat_id) or store.get(chat_id).draft.strip() or store.draft_files(chat_id)):
        store.delete(chat_id)
