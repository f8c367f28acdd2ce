"""Answers belong to their chats: they go on, are kept, have versions and can be continued."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, Qt
from pytestqt.qtbot import QtBot

from app.chats import writing
from app.generation import State
from app.main_window import MainWindow
from core.chats import ChatOptions, ChatStore, Figures, Sampling, schema
from core.chats.attach import TextFile
from core.pairs import Pair
from core.paths import chats_file
from helpers.chats_window import (
    LONG,
    SLOW,
    activity,
    open_chat,
    ready,
    send,
    shown,
    stored,
    until_answered,
    until_open,
    until_rows,
)
from helpers.window import WAIT_MS, OpenWindow


def source(window: MainWindow) -> str:
    assert window.transcript.answer is not None
    return window.transcript.answer.source


def test_a_question_and_its_answer_are_in_the_file(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--answer", "Because.", "--thinking", "Let me see."), qtbot)
    send(window, qtbot, "Why?")
    answer = until_answered(window, qtbot)
    question, kept = stored(lambda store: store.messages.path(open_chat(window)))
    assert question.content == "Why?"
    assert (kept.content, kept.thinking, kept.state, kept.pair) == ("Because.", "Let me see.", "complete", "Test pair")
    assert kept.figures == answer.figures != Figures()
    until_rows(window, qtbot, "Why?")
    assert window.windowTitle() == "Why? – Mirror SD"


def test_another_chat_can_be_opened_while_an_answer_is_written(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(*SLOW), qtbot)
    send(window, qtbot, "First")
    first = open_chat(window)
    qtbot.waitUntil(lambda: len(source(window)) > 30, timeout=WAIT_MS)
    window.chats.new()
    assert window.chats.current.accepts_message
    assert shown(window) == ""
    until_rows(window, qtbot, "First")
    assert activity(window) == ["writing"]
    writes = window.chats.answers.sessions[first].writing
    assert writes is not None
    before = len(writes.answering.text)
    qtbot.waitUntil(lambda: len(writes.answering.text) > before + 30, timeout=WAIT_MS)
    assert shown(window) == ""  # nothing of it comes into this chat
    until_open(window, qtbot, first)
    assert len(source(window)) > before
    assert source(window) == writes.answering.text  # all so far, and nothing twice
    qtbot.waitUntil(lambda: len(source(window)) > before + 100, timeout=WAIT_MS)
    window.chats.stop()
    answer = until_answered(window, qtbot)
    assert answer.state == "stopped"
    assert LONG.startswith(answer.content)
    assert answer.content == source(window)
    assert activity(window) == [""]


def test_an_answer_ends_in_a_chat_that_is_not_shown(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--answer", "word " * 40, "--steps-per-second", "40"), qtbot)
    send(window, qtbot, "First")
    first = open_chat(window)
    window.chats.new()
    qtbot.waitUntil(lambda: not window.generation.busy, timeout=WAIT_MS)
    until_open(window, qtbot, first)
    assert until_answered(window, qtbot).state == "complete"
    assert source(window).split() == ["word"] * 40
    assert stored(lambda store: store.messages.path(first))[-1].content.split() == ["word"] * 40


def test_a_question_in_another_chat_waits_and_can_be_taken_back(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(*SLOW), qtbot)
    send(window, qtbot, "First")
    window.chats.new()
    send(window, qtbot, "Second")
    assert window.chats.state is State.WAITING
    assert window.composer.button.text() == "Stop"
    assert window.transcript.answer is not None
    assert window.transcript.answer._status.text() == "Waiting for the answer to another chat"
    until_rows(window, qtbot, "Second", "First")
    qtbot.waitUntil(lambda: activity(window) == ["waiting", "writing"])
    first = window.generation.current
    assert first is not None
    before = len(first.text)
    qtbot.waitUntil(lambda: len(first.text) > before + 30, timeout=WAIT_MS)
    assert source(window) == ""  # nothing of the first comes into the second
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert until_answered(window, qtbot).state == "stopped"
    assert window.generation.current is not None  # the first goes on
    send(window, qtbot, "Third")
    window.generation.stop(window.generation.current)
    qtbot.waitUntil(lambda: window.chats.state is State.ANSWERING, timeout=WAIT_MS)


def test_a_killed_window_loses_at_most_a_second(
    open_window: OpenWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another program finds while the answer is written is what a killed one would leave."""
    monkeypatch.setattr(writing, "CHECKPOINT_S", 0.05)
    window = ready(open_window(*SLOW), qtbot)
    send(window, qtbot)
    qtbot.waitUntil(lambda: len(source(window)) > 60, timeout=WAIT_MS)
    with sqlite3.connect(chats_file()) as file:
        qtbot.waitUntil(
            lambda: len(file.execute("SELECT content FROM messages WHERE role = 'assistant'").fetchone()[0]) > 60
        )
        state, content = file.execute("SELECT state, content FROM messages WHERE role = 'assistant'").fetchone()
    file.close()
    assert state == "running"
    assert LONG.startswith(content)


def test_an_interrupted_answer_is_shown_so_and_can_be_continued(open_window: OpenWindow, qtbot: QtBot) -> None:
    def left_behind(store: object) -> int:
        chat = store.create().id  # type: ignore[attr-defined]
        messages = store.messages  # type: ignore[attr-defined]
        answer = messages.begin_answer(chat, messages.add_user(chat, None, "Count").id)
        messages.checkpoint(answer.id, "One, two")
        return chat

    chat = stored(left_behind)
    window = ready(open_window("--answer", ", three."), qtbot)
    until_open(window, qtbot, chat)
    answer = window.chats.current.path[-1]
    assert answer.state == "interrupted"
    assert window.transcript.answer is not None
    assert "Interrupted" in window.transcript.answer.footer.problem.text()
    assert window.chats.current.offer(answer.id).can_continue
    window.transcript.bars.continue_requested.emit(answer.id)
    qtbot.waitUntil(lambda: not window.chats.current.asking)
    continued = until_answered(window, qtbot)
    assert (continued.id, continued.content, continued.state) == (answer.id, "One, two, three.", "complete")
    assert source(window) == "One, two, three."
    assert window.transcript.answer.footer.problem.text() == ""


def test_a_continued_answer_has_the_figures_of_the_whole(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--answer", "word " * 19 + "word", "--steps-per-second", "50"), qtbot)
    send(window, qtbot)
    qtbot.waitUntil(lambda: len(source(window)) > 25, timeout=WAIT_MS)
    window.chats.stop()
    before = until_answered(window, qtbot).figures
    assert before is not None
    window.room.proceed()
    qtbot.waitUntil(lambda: not window.chats.current.asking)
    answer = until_answered(window, qtbot)
    figures = answer.figures
    assert figures is not None
    assert figures.parts == 2
    assert figures.tokens == before.tokens + 20 == answer.content.count("word")
    assert figures.steps > before.steps > 0
    assert figures.decode_s > before.decode_s > 0
    assert figures.time_to_first_token_s == before.time_to_first_token_s
    assert figures.finish_reason == "stop"
    assert window.transcript.answer is not None
    assert f"{figures.tokens} tokens" in window.transcript.answer.footer.figures.text()
    assert stored(lambda store: store.messages.path(open_chat(window)))[-1].figures == figures


def test_a_break_that_left_no_figures_is_named_by_those_of_the_rest(open_window: OpenWindow, qtbot: QtBot) -> None:
    def left_behind(store: ChatStore) -> int:
        chat = store.create().id
        answer = store.messages.begin_answer(chat, store.messages.add_user(chat, None, "Count").id)
        store.messages.checkpoint(answer.id, "One, two")
        return chat

    chat = stored(left_behind)
    window = ready(open_window("--answer", ", three."), qtbot)
    until_open(window, qtbot, chat)
    window.room.proceed()
    qtbot.waitUntil(lambda: not window.chats.current.asking)
    figures = until_answered(window, qtbot).figures
    assert figures is not None
    assert figures.misses_beginning
    assert window.transcript.answer is not None
    assert window.transcript.answer.footer.figures.text().startswith("after the break")


def test_closing_in_mid_answer_keeps_all_of_it(
    open_window: OpenWindow, qtbot: QtBot, loop: asyncio.AbstractEventLoop
) -> None:
    window = ready(open_window(*SLOW), qtbot)
    send(window, qtbot)
    chat = open_chat(window)
    qtbot.waitUntil(lambda: len(source(window)) > 30, timeout=WAIT_MS)
    task = loop.create_task(window.end())
    qtbot.waitUntil(task.done, timeout=WAIT_MS)
    answer = stored(lambda store: store.messages.path(chat))[-1]
    assert answer.state == "interrupted"
    assert answer.content == source(window)


def test_regenerate_adds_a_version_and_the_versions_can_be_flipped_through(
    open_window: OpenWindow, qtbot: QtBot
) -> None:
    window = ready(open_window("--echo"), qtbot)
    send(window, qtbot, "One")
    first = until_answered(window, qtbot)
    window.room.regenerate()
    qtbot.waitUntil(lambda: not window.chats.current.asking)
    second = until_answered(window, qtbot)
    assert second.versions == (first.id, second.id)
    assert second.content == first.content == "user: One"  # the first answer is no part of what is asked
    bar = window.transcript.bars.make(second.id)
    assert (bar.place.text(), bar.before.isEnabled(), bar.after.isEnabled()) == ("2/2", True, False)
    bar.before.click()
    qtbot.waitUntil(lambda: window.chats.current.path[-1].id == first.id, timeout=WAIT_MS)
    assert stored(lambda store: store.messages.path(open_chat(window)))[-1].id == first.id
    bar.deleteLater()


def test_an_edited_message_is_another_version_and_the_branch_before_stays(
    open_window: OpenWindow, qtbot: QtBot
) -> None:
    window = ready(open_window("--echo"), qtbot)
    for text in ("One", "Two"):
        send(window, qtbot, text)
        until_answered(window, qtbot)
    first = window.chats.current.path[0]
    window.composer.set_text("half typed")
    window.room.edit(first.id)
    assert window.composer.field.toPlainText() == "One"
    assert window.composer.is_editing
    window.composer.set_text("Uno")
    qtbot.keyClick(window.composer.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not window.chats.current.asking)
    answer = until_answered(window, qtbot)
    edited = window.chats.current.path[0]
    assert [message.content for message in window.chats.current.path] == ["Uno", "user: Uno"]
    assert edited.versions == (first.id, edited.id)
    assert window.composer.field.toPlainText() == "half typed"
    window.chats.choose(first.id)
    qtbot.waitUntil(lambda: len(window.chats.current.path) == 4, timeout=WAIT_MS)
    assert "Two" in shown(window)
    assert answer.id not in [message.id for message in window.chats.current.path]


def test_the_up_arrow_edits_the_last_message_and_escape_leaves_it(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--echo"), qtbot)
    send(window, qtbot, "Mistaek")
    until_answered(window, qtbot)
    qtbot.keyClick(window.composer.field, Qt.Key.Key_Up)
    assert window.composer.field.toPlainText() == "Mistaek"
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not window.composer.is_editing)
    assert window.composer.field.toPlainText() == ""
    assert len(window.chats.current.path) == 2
    qtbot.keyClicks(window.composer.field, "x")
    qtbot.keyClick(window.composer.field, Qt.Key.Key_Up)
    assert not window.composer.is_editing


def test_try_again_after_a_crash_is_another_version(open_window: OpenWindow, qtbot: QtBot, tmp_path: Path) -> None:
    crash = ("--die-after-steps", "3", "--once", str(tmp_path / "crashed"))
    window = ready(open_window("--answer", LONG, *crash), qtbot)
    send(window, qtbot)
    failed = until_answered(window, qtbot)
    assert failed.state == "failed"
    assert failed.problem is not None
    assert failed.content
    assert window.notice.retry.isVisible()
    window.notice.retry.click()
    qtbot.waitUntil(lambda: not window.chats.current.asking)
    answer = until_answered(window, qtbot)
    assert answer.content == LONG
    assert answer.versions == (failed.id, answer.id)
    assert not window.notice.isVisible()


def test_an_answer_stopped_before_its_first_word_is_given_in_its_place(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--prefill-s", "0.6", "--answer", "Late."), qtbot)
    send(window, qtbot)
    window.chats.stop()
    empty = until_answered(window, qtbot)
    assert (empty.state, empty.content) == ("stopped", "")
    window.room.regenerate()
    qtbot.waitUntil(lambda: not window.chats.current.asking)
    answer = until_answered(window, qtbot)
    assert (answer.id, answer.content, answer.state, answer.versions) == (empty.id, "Late.", "complete", (empty.id,))


def test_the_chats_options_are_what_the_engine_is_asked_with(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--echo"), qtbot)
    asked = []
    window.generation.answer_started.connect(asked.append)
    window.chats.set_options(ChatOptions("Be brief.", Sampling(temperature=0.5, max_tokens=7)))
    window.mode_selector.choose("plain")
    send(window, qtbot, "Hi")
    assert until_answered(window, qtbot).content == "system: Be brief.\n\nuser: Hi"
    options = asked[0].options
    assert (options.mode, options.temperature, options.max_tokens) == ("plain", 0.5, 7)
    chat = stored(lambda store: store.get(open_chat(window)))
    assert (chat.options.mode, chat.options.pair) == ("plain", "Test pair")
    window.chats.new()
    assert window.mode_selector.mode == "auto"
    until_open(window, qtbot, chat.id)
    assert window.mode_selector.mode == "plain"


def test_another_version_has_another_seed(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--echo"), qtbot)
    seeds = []
    window.generation.answer_started.connect(lambda answering: seeds.append(answering.options.seed))
    send(window, qtbot)
    until_answered(window, qtbot)
    window.room.regenerate()
    qtbot.waitUntil(lambda: not window.chats.current.asking)
    until_answered(window, qtbot)
    assert seeds == [0, 1]


def test_thinking_is_no_part_of_the_history(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--echo", "--thinking", "Hm, let me see."), qtbot)
    for text in ("One", "Two"):
        send(window, qtbot, text)
        answer = until_answered(window, qtbot)
    assert answer.thinking == "Hm, let me see."
    assert answer.content == "user: One\n\nassistant: user: One\n\nuser: Two"


def test_attached_files_are_sent_and_named_in_the_transcript(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--echo"), qtbot)
    window.composer.attachments.add(TextFile("notes.txt", "secret words\n"))
    assert window.composer.button.isEnabled()
    send(window, qtbot, "What is in it?")
    answer = until_answered(window, qtbot)
    assert answer.content == "user: notes.txt:\n```\nsecret words\n```\n\nWhat is in it?"
    assert "Attached: notes.txt\n\nWhat is in it?" in shown(window)
    assert window.composer.attachments.files == ()
    assert window.chats.current.chat is not None
    qtbot.waitUntil(lambda: window.windowTitle() == "What is in it? – Mirror SD")
    window.room.edit(window.chats.current.path[0].id)
    assert window.composer.attachments.files == (TextFile("notes.txt", "secret words\n"),)
    assert window.composer.field.toPlainText() == "What is in it?"


def test_a_chat_that_is_deleted_in_mid_answer_is_stopped(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(*SLOW), qtbot)
    send(window, qtbot)
    chat = open_chat(window)
    qtbot.waitUntil(lambda: len(source(window)) > 20, timeout=WAIT_MS)
    until_rows(window, qtbot, "Hi")
    window.sidebar.delete()
    qtbot.waitUntil(lambda: not window.generation.busy, timeout=WAIT_MS)
    until_rows(window, qtbot)
    assert window.chats.current.chat is None
    window.sidebar.undo.button.click()
    until_rows(window, qtbot, "Hi")
    qtbot.waitUntil(lambda: window.chats.current.chat_id == chat, timeout=WAIT_MS)
    assert window.chats.current.path[-1].state == "stopped"


def test_a_question_that_cannot_be_kept_is_a_draft_again(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    with sqlite3.connect(chats_file()) as other:
        other.execute("PRAGMA user_version = 99")  # a newer program has changed the file
    other.close()
    qtbot.keyClicks(window.composer.field, "Do not lose me")
    qtbot.keyClick(window.composer.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window.composer.field.toPlainText() == "Do not lose me", timeout=WAIT_MS)
    assert "newer version" in window.notice.sentence.text()
    assert not window.generation.busy


def test_an_answer_is_kept_once_the_disk_lets_it(
    open_window: OpenWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_RETRY_S", 0.05)
    window = ready(open_window(*SLOW), qtbot)
    send(window, qtbot)
    qtbot.waitUntil(lambda: len(source(window)) > 20, timeout=WAIT_MS)
    with sqlite3.connect(chats_file()) as other:
        other.execute("PRAGMA user_version = 99")
    window.chats.stop()
    qtbot.waitUntil(lambda: window.chats.current.writing is None, timeout=WAIT_MS)
    qtbot.waitUntil(window.notice.isVisible, timeout=WAIT_MS)
    assert window.chats.current.unkept
    other.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS)}")
    other.close()
    answer = until_answered(window, qtbot)
    assert stored(lambda store: store.messages.path(open_chat(window)))[-1].content == answer.content == source(window)


def test_a_killed_worker_leaves_the_chat_with_what_was_written(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(*SLOW), qtbot)
    send(window, qtbot)
    qtbot.waitUntil(lambda: len(source(window)) > 20, timeout=WAIT_MS)
    pid = window._engine.worker_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert until_answered(window, qtbot).state == "failed"
    kept = stored(lambda store: store.messages.path(open_chat(window)))[-1]
    assert (kept.state, kept.content) == ("failed", source(window))


def test_a_chat_offers_the_pair_that_it_used(open_window: OpenWindow, qtbot: QtBot, tmp_path: Path) -> None:
    for name in ("target", "draft"):
        (tmp_path / name).touch()
    mine = Pair("Mine", str(tmp_path / "target"), str(tmp_path / "draft"))
    window = ready(open_window(choose_pair=lambda: mine), qtbot)
    send(window, qtbot)
    until_answered(window, qtbot)
    chat = open_chat(window)
    assert not window.room.load_pair.isVisible()
    window.generation.use_pair(Pair("Other", "/x", "/y"))
    qtbot.waitUntil(window.room.load_pair.isVisible, timeout=WAIT_MS)
    assert window.room.load_pair.text() == "This chat used Mine: load it"
    window.chats.new()
    assert not window.room.load_pair.isVisible()
    until_open(window, qtbot, chat)
    window.room.load_pair.click()
    qtbot.waitUntil(lambda: window._engine.status.loaded is not None, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window._engine.status.name == "Mine", timeout=WAIT_MS)
    qtbot.waitUntil(lambda: not window.room.load_pair.isVisible(), timeout=WAIT_MS)


def test_a_chat_that_was_answered_is_not_held(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--echo"), qtbot)
    sessions = window.chats.answers.sessions
    for text in ("One", "Two"):
        send(window, qtbot, text)
        until_answered(window, qtbot)
        assert sessions == {}
        window.chats.new()
    first, _ = (chat.id for chat in stored(lambda store: store.page(2)))
    until_open(window, qtbot, first)
    window.composer.attachments.add(TextFile("notes.txt", "words\n"))
    window.chats.new()
    assert list(sessions) == [first]  # what is attached and not sent
    until_open(window, qtbot, first)
    window.composer.attachments.set_files(())
    window.chats.new()
    assert sessions == {}


def test_files_that_are_not_sent_come_back_with_a_deleted_chat(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--echo"), qtbot)
    chats = []
    for text in ("One", "Two"):
        send(window, qtbot, text)
        until_answered(window, qtbot)
        chats.append(open_chat(window))
        window.composer.attachments.add(TextFile("notes.txt", "words\n"))
        window.chats.new()
    for chat in chats:
        window.chats.delete(chat)
    qtbot.waitUntil(lambda: window.chats.answers.sessions == {}, timeout=WAIT_MS)
    window.chats.restore(chats[1])
    qtbot.waitUntil(lambda: window.chats.current.chat_id == chats[1], timeout=WAIT_MS)
    assert window.composer.attachments.files == (TextFile("notes.txt", "words\n"),)


def test_what_is_read_in_another_chat_stays_where_it_is_while_an_answer_is_written(
    open_window: OpenWindow, qtbot: QtBot
) -> None:
    def long_chat(store: ChatStore) -> int:
        chat = store.create().id
        question = store.messages.add_user(chat, None, "Tell me all")
        store.messages.finish(store.messages.begin_answer(chat, question.id).id, "A paragraph.\n\n" * 200)
        return chat

    other = stored(long_chat)
    window = ready(open_window(*SLOW), qtbot)
    window.chats.new()
    send(window, qtbot, "First")
    writes = window.chats.current.writing
    assert writes is not None
    until_open(window, qtbot, other)
    bar = window.transcript.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 1000, timeout=WAIT_MS)
    bar.setValue(bar.maximum() // 2)
    QCoreApplication.processEvents()  # more of the chat may be built above
    place, before = bar.maximum() - bar.value(), len(writes.answering.text)
    qtbot.waitUntil(lambda: len(writes.answering.text) > before + 60, timeout=WAIT_MS)
    assert bar.maximum() - bar.value() == place
    window.generation.stop(window.generation.current)


def test_a_chat_that_is_opened_twice_keeps_the_question_asked_meanwhile(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--answer", "Yes."), qtbot)
    send(window, qtbot, "First")
    until_answered(window, qtbot)
    chat = open_chat(window)
    window.chats.new()
    until_open(window, qtbot, chat)
    reading = window.chats._tasks.start(window.chats._open(chat))  # a second click, on its way
    window.chats._wanted = chat
    assert window.chats.send("Second")
    qtbot.waitUntil(reading.done, timeout=WAIT_MS)
    assert not window.chats.current.accepts_message
    until_answered(window, qtbot)
    assert [message.content for message in window.chats.current.path] == ["First", "Yes.", "Second", "Yes."]
    qtbot.waitUntil(lambda: not window.chats.answers._writing._running, timeout=WAIT_MS)
