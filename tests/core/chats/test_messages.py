"""Messages, their versions, and answers on their way."""

from __future__ import annotations

import logging

import msgspec
import pytest

from core.chats import ChatStore, Figures
from core.chats.attach import TextFile, with_files
from core.errors import BadRequest, MissingMessage, Problem
from core.protocol import Done


def contents(store, chat):
    return [message.content for message in store.messages.path(chat.id)]


@pytest.fixture
def chat(store):
    return store.create()


def ask(store, chat, parent, question, answer):
    """Returns the ids of the question and of its finished answer."""
    asked = store.messages.add_user(chat.id, parent, question)
    begun = store.messages.begin_answer(chat.id, asked.id, "demo")
    store.messages.finish(begun.id, answer)
    return asked.id, begun.id


def test_an_answer_is_kept_as_it_grows_and_as_it_ends(store, chat):
    asked = store.messages.add_user(chat.id, None, "Why?")
    answer = store.messages.begin_answer(chat.id, asked.id, "demo")
    assert (answer.state, answer.content, answer.pair, answer.parent_id) == ("running", "", "demo", asked.id)
    store.messages.checkpoint(answer.id, "Beca", "hm")
    growing = store.messages.get(answer.id)
    assert (growing.state, growing.content, growing.thinking) == ("running", "Beca", "hm")
    figures = Figures(tokens=3, steps=2, accepted_per_step=1.5, mode="mirror", finish_reason="length")
    store.messages.finish(answer.id, "Because.", "hm!", figures=figures)
    ended = store.messages.get(answer.id)
    assert (ended.state, ended.content, ended.thinking, ended.figures) == ("complete", "Because.", "hm!", figures)


def test_a_failed_answer_keeps_its_problem_and_its_text(store, chat):
    asked = store.messages.add_user(chat.id, None, "Why?")
    answer = store.messages.begin_answer(chat.id, asked.id)
    problem = Problem("WorkerDied", "The engine ended.", "Again.", "signal 9")
    store.messages.finish(answer.id, "Bec", state="failed", problem=problem)
    failed = store.messages.get(answer.id)
    assert (failed.state, failed.content, failed.problem) == ("failed", "Bec", problem)


def test_another_answer_is_a_version_and_the_old_one_can_be_shown_again(store, chat):
    question, first = ask(store, chat, None, "q", "first")
    second = store.messages.begin_answer(chat.id, question)
    store.messages.finish(second.id, "second")
    shown = store.messages.path(chat.id)[-1]
    assert (shown.content, shown.versions) == ("second", (first, second.id))
    store.messages.choose(first)
    assert contents(store, chat) == ["q", "first"]


def test_an_edited_message_branches_and_each_branch_remembers_what_was_chosen_in_it(store, chat):
    q1, a1 = ask(store, chat, None, "q1", "a1")
    q2, a2 = ask(store, chat, a1, "q2", "a2")
    store.messages.begin_answer(chat.id, q2)
    store.messages.choose(a2)
    edited, _ = ask(store, chat, a1, "q2 edited", "a2 of the edited")
    assert contents(store, chat) == ["q1", "a1", "q2 edited", "a2 of the edited"]
    root, _ = ask(store, chat, None, "another first", "a")
    assert contents(store, chat) == ["another first", "a"]
    store.messages.choose(q1)
    assert contents(store, chat) == ["q1", "a1", "q2 edited", "a2 of the edited"]
    store.messages.choose(q2)
    assert contents(store, chat) == ["q1", "a1", "q2", "a2"]
    path = store.messages.path(chat.id)
    assert path[0].versions == (q1, root)
    assert path[2].versions == (q2, edited)


def test_choosing_a_message_deep_in_another_branch_shows_the_way_to_it(store, chat):
    _, a1 = ask(store, chat, None, "q1", "a1")
    _, deep = ask(store, chat, a1, "q2", "a2")
    ask(store, chat, None, "other", "b")
    assert [message.content for message in store.messages.path_to(deep)] == ["q1", "a1", "q2", "a2"]
    assert [message.content for message in store.messages.path_to(a1)] == ["q1", "a1"]
    store.messages.choose(deep)
    assert store.messages.path_to(deep) == store.messages.path(chat.id)
    with pytest.raises(MissingMessage):
        store.messages.path_to(deep + 100)
    assert contents(store, chat) == ["q1", "a1", "q2", "a2"]


def test_versions_survive_the_program(store, chat, file):
    question, first = ask(store, chat, None, "q", "first")
    store.messages.begin_answer(chat.id, question)
    store.messages.choose(first)
    path = store.messages.path(chat.id)
    store.close()
    again = ChatStore.open(file)
    assert again.messages.path(chat.id) == path
    again.close()


def test_a_stopped_answer_can_go_on(store, chat):
    question = store.messages.add_user(chat.id, None, "q")
    answer = store.messages.begin_answer(chat.id, question.id)
    store.messages.finish(answer.id, "half", state="stopped")
    store.messages.resume_answer(answer.id)
    assert store.messages.get(answer.id).state == "running"
    store.messages.finish(answer.id, "half and whole")
    assert (store.messages.get(answer.id).state, contents(store, chat)) == ("complete", ["q", "half and whole"])
    assert store.search("half")[0].message_id == answer.id


def test_an_answer_whose_program_closed_is_interrupted_and_keeps_its_last_checkpoint(store, chat, file):
    question = store.messages.add_user(chat.id, None, "q")
    answer = store.messages.begin_answer(chat.id, question.id)
    store.messages.checkpoint(answer.id, "so far")
    store.close()
    again = ChatStore.open(file)
    found = again.messages.get(answer.id)
    assert (found.state, found.content) == ("interrupted", "so far")
    assert again.search("far")[0].message_id == answer.id
    again.close()


def test_another_window_leaves_a_running_answer_alone(store, chat, file):
    question = store.messages.add_user(chat.id, None, "q")
    answer = store.messages.begin_answer(chat.id, question.id)
    other = ChatStore.open(file)
    assert other.messages.get(answer.id).state == "running"
    store.messages.finish(answer.id, "done")
    assert other.messages.get(answer.id).content == "done"
    other.close()
    assert store.messages.get(answer.id).state == "complete"


def test_roles_take_turns(store, chat):
    question, answer = ask(store, chat, None, "q", "a")
    with pytest.raises(BadRequest):
        store.messages.add_user(chat.id, question, "x")
    with pytest.raises(BadRequest):
        store.messages.begin_answer(chat.id, answer)
    with pytest.raises(BadRequest):
        store.messages.add_user(store.create().id, answer, "behind another chat's answer")
    assert contents(store, chat) == ["q", "a"]


@pytest.mark.parametrize(
    "act",
    [
        lambda messages, _: messages.get(99),
        lambda messages, _: messages.choose(99),
        lambda messages, _: messages.resume_answer(99),
        lambda messages, _: messages.checkpoint(99, "x"),
        lambda messages, _: messages.finish(99, "x"),
        lambda messages, chat: messages.begin_answer(chat.id, 99),
        lambda messages, chat: messages.add_user(chat.id, 99, "x"),
    ],
)
def test_a_message_that_is_gone_is_told_of(store, chat, act):
    with pytest.raises(MissingMessage, match="does not exist any more"):
        act(store.messages, chat)


@pytest.mark.parametrize(
    "text",
    [
        "👩‍👩‍👧‍👦 🏳️‍🌈",
        "日本語のテキスト",
        "שלום עולם \u202eevil",
        "a\tb\r\nc\x01\x02\x03\x1f",
        "x" * 1_000_000,
        "zwsp\u200b\ufeff",
    ],
)
def test_every_text_comes_back_as_it_was(store, chat, text):
    _, answer = ask(store, chat, None, text, text)
    store.messages.finish(answer, text, text)
    assert contents(store, chat) == [text, text]
    assert store.messages.get(answer).thinking == text
    store.save_draft(chat.id, text)
    assert store.get(chat.id).draft == text


def test_what_cannot_be_stored_is_replaced_and_the_log_says_so(store, chat, caplog):
    with caplog.at_level(logging.WARNING):
        message = store.messages.add_user(chat.id, None, "a\0b \ud83d c \ud83d\ude00")
    assert message.content == "a\ufffdb \ufffd c \U0001f600"
    assert "2 characters that cannot be stored" in caplog.text
    store.rename(chat.id, "\udc00")
    store.save_draft(chat.id, "\0")
    store.messages.finish(store.messages.begin_answer(chat.id, message.id, "\0").id, "\0", "\ud800")
    assert store.search("\ud800\0") == ()
    assert store.get(chat.id).title == "\ufffd"


def test_the_figures_are_those_of_the_engines_last_event():
    done = Done("t", "th", (1, 2), 2, 1, 2.0, 3, 1, 20.0, 0.5, 9, 4, 0.1, 50.0, "mirror", "stop")
    figures = Figures.of(done)
    assert set(Done.__struct_fields__) - set(Figures.__struct_fields__) == {"text", "thinking", "token_ids"}
    own = set(Figures.__struct_fields__) - set(Done.__struct_fields__)
    assert {name: getattr(figures, name) for name in own} == {"parts": 1, "misses_beginning": False}
    assert {name: getattr(done, name) for name in Figures.__struct_fields__ if name not in own} == {
        name: getattr(figures, name) for name in Figures.__struct_fields__ if name not in own
    }
    assert figures.plain_decode_s == done.plain_decode_s == 0.05


def test_the_figures_of_a_continued_answer_are_of_all_its_parts():
    first = Figures(
        tokens=101, steps=40, accepted_per_step=2.5, proposed=100, accepted=60, tokens_per_second=50.0,
        time_to_first_token_s=0.5, prompt_tokens=9, reused_tokens=4, decode_s=2.0, plain_ms_per_token=50.0,
        mode="gpu", finish_reason="length",
    )  # fmt: skip
    second = Figures(
        tokens=51, steps=10, accepted_per_step=5.0, proposed=60, accepted=40, tokens_per_second=25.0,
        time_to_first_token_s=0.1, prompt_tokens=110, decode_s=2.0, plain_ms_per_token=20.0,
        mode="mirror", finish_reason="stop",
    )  # fmt: skip
    whole = first.plus(second)
    assert (whole.tokens, whole.steps, whole.proposed, whole.accepted, whole.decode_s) == (152, 50, 160, 100, 4.0)
    assert whole.accepted_per_step == 3.0
    assert whole.tokens_per_second == 37.5  # the first token of each part is not among the timed ones
    assert (whole.time_to_first_token_s, whole.prompt_tokens, whole.reused_tokens) == (0.5, 9, 4)
    assert (whole.mode, whole.finish_reason, whole.parts) == ("mirror", "stop", 2)
    assert whole.plain_decode_s == pytest.approx(first.plain_decode_s + second.plain_decode_s) == pytest.approx(6.0)
    unmeasured = msgspec.structs.replace(second, plain_ms_per_token=0.0)
    assert first.plus(unmeasured).plain_decode_s == 0
    assert first.plus(second).plus(second).tokens_per_second == pytest.approx(200 / 6)


def test_the_automatic_title_is_of_what_was_typed_beside_a_file(store):
    chat = store.create().id
    content, attachments = with_files("What is in it?", [TextFile("notes.txt", "dear diary")])
    store.messages.add_user(chat, None, content, attachments)
    assert store.get(chat).title == "What is in it?"
    store.rename(chat, "Mine")
    assert store.rename(chat, "") == "What is in it?"
    other = store.create().id
    store.messages.add_user(other, None, *with_files("", [TextFile("notes.txt", "dear diary")]))
    assert store.get(other).title == "notes.txt: dear diary"
