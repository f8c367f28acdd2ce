"""What the engine is asked."""

from __future__ import annotations

from core.chats.conversation import turns
from core.protocol import ChatMessage


def test_the_path_becomes_turns_without_thinking_and_empty_answers(store):
    chat = store.create().id
    question = store.messages.add_user(chat, None, "one")
    answer = store.messages.begin_answer(chat, question.id)
    store.messages.finish(answer.id, "first", "thoughts")
    second = store.messages.add_user(chat, answer.id, "two")
    failed = store.messages.begin_answer(chat, second.id)
    store.messages.finish(failed.id, "", "more thoughts", state="failed")
    store.messages.add_user(chat, failed.id, "three")
    assert turns(store.messages.path(chat), "Be brief.") == (
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "one"),
        ChatMessage("assistant", "first"),
        ChatMessage("user", "two\n\nthree"),
    )


def test_there_is_no_system_prompt_of_blanks():
    assert turns((), " \n") == ()
