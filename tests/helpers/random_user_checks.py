"""Whether windows and store agree with each other, and with what their users did."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing

from PySide6.QtCore import QModelIndex
from pytestqt.qtbot import QtBot

from app.chats.session import shown_text
from app.main_window import MainWindow
from core.chats import ChatStore
from core.paths import chats_file
from helpers.chats_window import rows, stored
from helpers.random_user import Ledger
from helpers.window import WAIT_MS


def until_at_rest(windows: list[MainWindow], qtbot: QtBot, timeout_ms: int = WAIT_MS) -> None:
    """Wait for the end of all answers, and until what was typed, said and done is in the store."""

    def is_at_rest() -> None:
        waiting = [each for window in windows for each in under_way(window)]
        assert not waiting, f"{waiting}"

    qtbot.waitUntil(is_at_rest, timeout=timeout_ms)


def under_way(window: MainWindow) -> list[object]:
    """What the window waits for."""
    chats, generation = window.chats, window.generation
    owners = (generation, chats, chats._drafts, window.files, window.sidebar.model, window)
    tasks = [*(owner._tasks for owner in owners), chats.answers._asking, chats.answers._writing]
    timers = (chats._drafts._timer, window.sidebar._search_timer)
    found: list[object] = [task for each in tasks for task in each._running]
    found += [timer for timer in timers if timer.isActive()]
    return [*found, generation.state] if generation.busy else found


def check_store(ledger: Ledger, *, alone: bool) -> None:
    """Nothing is lost, doubled or left open. `alone`: one window used it, so that the order of changes is known."""
    with closing(sqlite3.connect(chats_file())) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = file.execute("SELECT content FROM messages WHERE role = 'user'").fetchall()
        assert Counter(content.rsplit("\n", 1)[-1] for (content,) in found) == Counter(ledger.sent)
        states = Counter(state for (state,) in file.execute("SELECT state FROM messages WHERE role = 'assistant'"))
        assert not states["running"], states
        assert not states["failed"], states
        assert states.total() == ledger.answers
        unanswered = """SELECT id FROM messages question WHERE role = 'user'
            AND NOT EXISTS (SELECT 1 FROM messages WHERE parent_id = question.id)"""
        assert file.execute(unanswered).fetchall() == []
        if not alone:
            return
        used = {number for (number,) in file.execute("SELECT DISTINCT chat_id FROM messages")}
        chats = file.execute("SELECT id, title, title_is_automatic, pinned, deleted_ms FROM chats").fetchall()
    deleted = {number for number, *_, deleted_ms in chats if deleted_ms}
    assert deleted & used == ledger.deleted & used, (deleted & used) ^ (ledger.deleted & used)
    for number, title, automatic, pinned, _ in chats:
        given = " ".join(ledger.titles.get(number, "").split())
        assert (title == given and not automatic) if given else automatic, (number, title, given)
        assert bool(pinned) == ledger.pinned.get(number, False), number


def check_window(window: MainWindow, qtbot: QtBot) -> None:
    """What it shows is what the store holds."""
    listed = stored(lambda store: store.page(1000))
    model = window.sidebar.model
    read = [row.chat for row in model._rows]  # page by page
    assert read == list(listed)[: len(read)]
    assert len(read) == len(listed) or model.canFetchMore(QModelIndex())
    assert rows(window) == [chat.title or "New chat" for chat in read]
    session = window.chats.current
    assert session.accepts_message
    assert not session.unkept
    assert window.composer.field.toPlainText() == session.draft
    assert window.composer.attachments.files == session.files
    if session.chat_id is not None:
        number = session.chat_id
        chat, path = stored(lambda store: (store.get(number), store.messages.path(number)))
        assert (chat.draft, chat.title) == (session.draft, session.chat.title if session.chat else "")
        assert path == session.path
    empty = stored(lambda store: {chat.id for chat in listed if _is_empty(store, chat.id)})
    assert empty <= {session.chat_id}
    _check_transcript(window, qtbot)


def _is_empty(store: ChatStore, number: int) -> bool:
    return not (store.messages.path(number) or store.get(number).draft.strip() or store.draft_files(number))


def _check_transcript(window: MainWindow, qtbot: QtBot) -> None:
    window.transcript.build_all()
    qtbot.waitUntil(lambda: window.transcript.is_complete, timeout=WAIT_MS)
    messages, path = window.transcript.messages, window.chats.current.path
    wanted = [shown_text(message) if message.role == "user" else message.content for message in path]
    assert [message.source for message in messages] == wanted
