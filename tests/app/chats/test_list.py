"""The list of chats: pages, search, names, pins, deletion with a way back, two windows on one file."""

from __future__ import annotations

import asyncio
import random

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from app.chats.list_model import PAGE, ChatListModel, Role
from app.chats.row_delegate import chat_of
from app.main_window import MainWindow
from core.chats import ChatStore, Piece
from helpers.chats_window import (
    SLOW,
    open_chat,
    ready,
    rows,
    send,
    shown,
    stored,
    until_answered,
    until_open,
    until_rows,
)
from helpers.window import WAIT_MS, OpenWindow


def fill(store: ChatStore, *titles: str) -> list[int]:
    """Chats with one question each, the last one newest."""
    ids = []
    for title in titles:
        chat = store.create().id
        question = store.messages.add_user(chat, None, title)
        store.messages.finish(store.messages.begin_answer(chat, question.id).id, f"An answer to {title}.")
        ids.append(chat)
    return ids


def test_a_list_of_1000_chats_is_read_page_by_page(open_window: OpenWindow, qtbot: QtBot) -> None:
    stored(lambda store: fill(store, *(f"Question {number}" for number in range(1000))))
    window = ready(open_window(), qtbot)
    model, view = window.sidebar.model, window.sidebar.view
    qtbot.waitUntil(lambda: model.rowCount() > 0, timeout=WAIT_MS)
    assert PAGE <= model.rowCount() <= 2 * PAGE
    assert rows(window)[:2] == ["Question 999", "Question 998"]
    before = model.rowCount()
    view.scrollToBottom()
    qtbot.waitUntil(lambda: model.rowCount() > before, timeout=WAIT_MS)
    assert model.rowCount() <= before + 2 * PAGE
    while model.canFetchMore(QModelIndex()):
        known = model.rowCount()
        model.fetchMore(QModelIndex())
        qtbot.waitUntil(lambda known=known: model.rowCount() > known or not model._reading, timeout=WAIT_MS)
    assert rows(window) == [f"Question {number}" for number in range(999, -1, -1)]


def test_a_new_message_moves_its_chat_to_the_top_and_nothing_else_changes(
    open_window: OpenWindow, qtbot: QtBot
) -> None:
    first, *_ = stored(lambda store: fill(store, "One", "Two", "Three"))
    window = ready(open_window(), qtbot)
    until_rows(window, qtbot, "Three", "Two", "One")
    resets: list[None] = []
    window.sidebar.model.modelReset.connect(lambda: resets.append(None))
    until_open(window, qtbot, first)
    assert window.sidebar.view.currentIndex().row() == 2
    send(window, qtbot, "More")
    until_rows(window, qtbot, "One", "Three", "Two")
    assert window.sidebar.view.currentIndex().row() == 0
    assert not resets


@pytest.mark.parametrize("seed", range(5))
def test_rows_become_whatever_the_store_has(open_window: OpenWindow, qtbot: QtBot, seed: int) -> None:
    window = ready(open_window(), qtbot)
    model = window.sidebar.model
    chance = random.Random(seed)
    ids = stored(lambda store: fill(store, *map(str, range(12))))
    for _ in range(4):

        def change(store: ChatStore) -> None:
            for chat in chance.sample(ids, 4):
                match chance.randrange(4):
                    case 0:
                        store.delete(chat)
                    case 1:
                        store.restore(chat)
                    case pinned:
                        store.pin(chat, pinned == 2)
            fill(store, f"new {chance.random()}")

        stored(change)
        wanted = [chat.title for chat in stored(lambda store: store.page(100))]
        model.refresh()
        until_rows(window, qtbot, *wanted)


def test_search_finds_words_of_messages_and_marks_them(open_window: OpenWindow, qtbot: QtBot) -> None:
    stored(lambda store: fill(store, "About the lighthouse", "Something else"))
    window = ready(open_window(), qtbot)
    until_rows(window, qtbot, "Something else", "About the lighthouse")
    qtbot.keyClick(window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(window.sidebar.search.hasFocus)
    qtbot.keyClicks(window.sidebar.search, "answer else")
    until_rows(window, qtbot, "Something else")
    (snippet,) = rows(window, Role.SNIPPET)
    assert [piece.text for piece in snippet if piece.found] == ["answer", "else"]
    qtbot.keyClick(window.sidebar.search, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "An answer to Something else." in shown(window), timeout=WAIT_MS)
    window.sidebar.search.setText("lightho")
    until_rows(window, qtbot, "About the lighthouse")
    assert Piece("lighthouse", True) in rows(window, Role.TITLE)[0]
    window.sidebar.search.setText("nowhere to be found")
    until_rows(window, qtbot)
    assert window.sidebar.empty.text() == "No chat has “nowhere to be found”."
    window.sidebar.search.clear()
    until_rows(window, qtbot, "Something else", "About the lighthouse")


def long_chat(store: ChatStore) -> tuple[int, int]:
    """A chat of 60 turns with the word "lighthouse" in one answer far above its end; returns both ids."""
    chat, above, found = store.create().id, None, 0
    for turn in range(60):
        question = store.messages.add_user(chat, above, f"Question {turn}")
        above = store.messages.begin_answer(chat, question.id).id
        here = "The **lighthouse** keeper waves. " if turn == 20 else ""
        store.messages.finish(above, f"{'Many words stand here. ' * 40}\n\n{here}Lights go out.")
        found = above if here else found
    return chat, found


def in_view(window: MainWindow, message_id: int) -> bool:
    """Whether the chosen hit of the find bar lies in that message, and in sight."""
    transcript, place = window.transcript, window.room.find_bar._current
    message = next((m for m in transcript.messages if m.message_id == message_id), None)
    if place is None or message is None or not message.isAncestorOf(place[0]):
        return False
    top, bottom = window.room.find_bar._range(*place)
    value = transcript.verticalScrollBar().value()
    return value <= top < bottom <= value + transcript.viewport().height()


def test_a_hit_opens_its_chat_at_the_message_with_the_words_marked(open_window: OpenWindow, qtbot: QtBot) -> None:
    chat, found = stored(long_chat)
    stored(lambda store: fill(store, "Another"))
    window = ready(open_window(), qtbot)
    window.sidebar.search.setText("keeper lighth")
    until_rows(window, qtbot, "Question 0")
    qtbot.keyClick(window.sidebar.search, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: in_view(window, found), timeout=WAIT_MS)
    assert window.chats.current.chat_id == chat
    bar = window.room.find_bar
    assert bar.isVisible()
    assert not bar.field.hasFocus()
    qtbot.waitUntil(lambda: window.transcript.is_complete, timeout=WAIT_MS)
    assert in_view(window, found)  # what is built above moves nothing
    marked = [hit.selectedText() for searched in bar._searched for hit in searched.hits]
    assert marked == ["lighthouse", "keeper"]
    window.transcript.scroll_to_end()  # in the open chat a hit is gone to as well
    window.sidebar.search.setText("waves")
    qtbot.waitUntil(lambda: window.sidebar.model.index(0).data(Role.FOUND).words == ("waves",), timeout=WAIT_MS)
    window.sidebar.view.clicked.emit(window.sidebar.model.index(0))
    qtbot.waitUntil(lambda: in_view(window, found), timeout=WAIT_MS)
    assert bar.count.text() == "1 of 1"


def test_a_hit_in_a_version_that_is_not_shown_shows_that_version(open_window: OpenWindow, qtbot: QtBot) -> None:
    def two_answers(store: ChatStore) -> int:
        chat = store.create().id
        question = store.messages.add_user(chat, None, "Why?")
        first = store.messages.begin_answer(chat, question.id).id
        store.messages.finish(first, "Because of the lighthouse.")
        store.messages.finish(store.messages.begin_answer(chat, question.id).id, "Who knows.")
        return first

    first = stored(two_answers)
    window = ready(open_window(), qtbot)
    window.sidebar.search.setText("lighthouse")
    until_rows(window, qtbot, "Why?")
    qtbot.waitUntil(lambda: window.sidebar.model.index(0).data(Role.FOUND) is not None, timeout=WAIT_MS)
    window.sidebar._open(window.sidebar.model.index(0))
    qtbot.waitUntil(lambda: in_view(window, first), timeout=WAIT_MS)


def test_a_chat_is_renamed_in_the_list(open_window: OpenWindow, qtbot: QtBot) -> None:
    (chat,) = stored(lambda store: fill(store, "Before"))
    window = ready(open_window(), qtbot)
    until_rows(window, qtbot, "Before")
    until_open(window, qtbot, chat)
    qtbot.keyClick(window, Qt.Key.Key_F2)
    editor = window.sidebar.view.findChild(QLineEdit)
    assert editor is not None
    editor.setText("After")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    until_rows(window, qtbot, "After")
    qtbot.waitUntil(lambda: window.windowTitle() == "After – Mirror SD", timeout=WAIT_MS)
    assert stored(lambda store: store.get(chat)).title == "After"
    window.chats.rename(chat, "")
    until_rows(window, qtbot, "Before")


def test_pinned_chats_stand_above_under_a_heading(open_window: OpenWindow, qtbot: QtBot) -> None:
    first, _ = stored(lambda store: fill(store, "One", "Two"))
    window = ready(open_window(), qtbot)
    until_rows(window, qtbot, "Two", "One")
    assert rows(window, Role.GROUP) == ["Today", ""]
    until_open(window, qtbot, first)
    window.sidebar.pin()
    until_rows(window, qtbot, "One", "Two")
    assert rows(window, Role.GROUP) == ["Pinned", "Today"]
    assert rows(window, Qt.ItemDataRole.AccessibleTextRole) == ["One, pinned", "Two"]
    window.sidebar.pin()
    until_rows(window, qtbot, "Two", "One")


def test_a_deleted_chat_comes_back_by_undo(open_window: OpenWindow, qtbot: QtBot) -> None:
    first, _ = stored(lambda store: fill(store, "One", "Two"))
    window = ready(open_window(), qtbot)
    until_rows(window, qtbot, "Two", "One")
    assert not window.sidebar.undo.isVisible()
    window.sidebar._delete(chat_of(window.sidebar.model.index(1)))
    until_rows(window, qtbot, "Two")
    assert stored(lambda store: [chat.title for chat in store.page(9)]) == ["Two"]
    assert window.sidebar.undo.isVisible()
    window.sidebar.undo.button.click()
    until_rows(window, qtbot, "Two", "One")
    assert not window.sidebar.undo.isVisible()
    qtbot.waitUntil(lambda: window.chats.current.chat_id == first, timeout=WAIT_MS)


def test_empty_chats_are_not_left_over_and_drafts_are_kept(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    for _ in range(3):
        window.chats.new()
    qtbot.keyClicks(window.composer.field, "half a thought")
    qtbot.waitUntil(lambda: rows(window) == ["New chat"], timeout=WAIT_MS)
    chat = open_chat(window)
    window.chats.new()
    assert window.composer.field.toPlainText() == ""
    until_open(window, qtbot, chat)
    assert window.composer.field.toPlainText() == "half a thought"
    window.composer.field.clear()
    window.chats.new()
    until_rows(window, qtbot)
    assert stored(lambda store: store.page(9)) == ()


def test_a_draft_of_a_moment_ago_is_kept_at_the_end(open_window: OpenWindow, qtbot: QtBot) -> None:
    (chat,) = stored(lambda store: fill(store, "One"))
    window = ready(open_window(), qtbot)
    until_open(window, qtbot, chat)
    qtbot.keyClicks(window.composer.field, "unsent")
    end(window, qtbot)
    assert stored(lambda store: store.get(chat)).draft == "unsent"
    second = ready(open_window(), qtbot)
    assert second.chats.current.chat_id == chat  # the chat that was open last
    assert second.composer.field.toPlainText() == "unsent"
    assert "An answer to One." in shown(second)


def test_what_is_sent_is_no_draft_any_more(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    qtbot.keyClicks(window.composer.field, "Question")
    qtbot.waitUntil(lambda: window.chats.current.chat is not None, timeout=WAIT_MS)
    send(window, qtbot, "?")
    until_answered(window, qtbot)
    chat = stored(lambda store: store.get(open_chat(window)))
    assert (chat.title, chat.draft) == ("Question?", "")


def test_two_windows_on_one_file_see_each_others_chats(open_window: OpenWindow, qtbot: QtBot) -> None:
    first = ready(open_window("--echo"), qtbot)
    send(first, qtbot, "From the first")
    until_answered(first, qtbot)
    second = ready(open_window("--echo"), qtbot)
    until_rows(second, qtbot, "From the first")
    assert second.chats.current.path == first.chats.current.path  # the chat that was open last
    send(second, qtbot, "From the second")
    until_answered(second, qtbot)
    assert len(first.chats.current.path) == 2
    first.activateWindow()
    qtbot.waitUntil(lambda: len(first.chats.current.path) == 4, timeout=WAIT_MS)
    assert "From the second" in shown(first)
    send(first, qtbot, "Third")
    assert until_answered(first, qtbot).content.endswith("user: Third")
    assert len(first.chats.current.path) == 6


def test_an_answer_that_another_window_writes_is_shown_so(open_window: OpenWindow, qtbot: QtBot) -> None:
    first = ready(open_window(*SLOW), qtbot)
    send(first, qtbot)
    chat = open_chat(first)
    second = ready(open_window(), qtbot)
    assert second.chats.current.chat_id == chat
    answer = second.chats.current.path[-1]
    assert answer.state == "running"
    assert second.transcript.answer is not None
    assert "another window" in second.transcript.answer.footer.problem.text()
    offer = second.chats.current.offer(answer.id)
    assert (offer.can_continue, offer.can_regenerate, offer.can_choose) == (False, False, False)


def test_the_next_and_the_previous_chat_open_by_key(open_window: OpenWindow, qtbot: QtBot) -> None:
    one, two = stored(lambda store: fill(store, "One", "Two"))
    window = ready(open_window(), qtbot)
    until_rows(window, qtbot, "Two", "One")
    for key, expected in ((Qt.Key.Key_PageDown, two), (Qt.Key.Key_PageDown, one), (Qt.Key.Key_PageUp, two)):
        qtbot.keyClick(window, key, Qt.KeyboardModifier.ControlModifier)
        qtbot.waitUntil(lambda expected=expected: window.chats.current.chat_id == expected, timeout=WAIT_MS)


def test_the_list_folds_away_and_stays_so(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    assert window.sidebar.isVisible()
    qtbot.keyClick(window, Qt.Key.Key_B, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: not window.sidebar.isVisible())
    window.close()
    assert not open_window().sidebar.isVisible()


def test_a_chat_that_is_gone_says_so(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    window.chats.open(77)
    qtbot.waitUntil(window.notice.isVisible, timeout=WAIT_MS)
    assert "does not exist" in window.notice.sentence.text()


def test_the_menu_of_a_row_names_what_can_be_done(open_window: OpenWindow, qtbot: QtBot) -> None:
    stored(lambda store: fill(store, "One"))
    window = ready(open_window(), qtbot)
    until_rows(window, qtbot, "One")
    menu = window.sidebar.menu_for(window.sidebar.model.index(0))
    actions = {action.text(): action for action in menu.actions() if action.text()}
    assert list(actions) == ["Rename", "Pin", "Export…", "Delete"]
    actions["Delete"].trigger()
    until_rows(window, qtbot)
    menu.deleteLater()


def end(window: MainWindow, qtbot: QtBot) -> None:
    task = asyncio.get_running_loop().create_task(window.end())
    qtbot.waitUntil(task.done, timeout=WAIT_MS)
    task.result()


def test_the_model_keeps_qts_rules(open_window: OpenWindow, qtbot: QtBot, qtmodeltester: object) -> None:
    stored(lambda store: fill(store, "One", "Two"))
    window = ready(open_window(), qtbot)
    until_rows(window, qtbot, "Two", "One")
    model: ChatListModel = window.sidebar.model
    qtmodeltester.check(model)  # type: ignore[attr-defined]


def test_a_title_that_is_being_typed_outlives_changes_of_the_list(open_window: OpenWindow, qtbot: QtBot) -> None:
    chat = stored(lambda store: fill(store, "Before"))[0]
    window = ready(open_window(), qtbot)
    until_open(window, qtbot, chat)
    window.sidebar.rename()
    window.sidebar.rename()  # the key once more
    editor = window.sidebar.view.findChild(QLineEdit)
    assert editor is not None
    qtbot.keyClicks(editor, "Aft")
    with qtbot.waitSignal(window.sidebar.model.refreshed, timeout=WAIT_MS):
        window.chats.list_changed.emit()  # as when an answer has ended
    qtbot.keyClicks(editor, "er")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    until_rows(window, qtbot, "After")


def test_a_title_that_is_being_typed_outlives_the_end_of_another_chat(open_window: OpenWindow, qtbot: QtBot) -> None:
    other, chat = stored(lambda store: fill(store, "Other", "Before"))
    window = ready(open_window(), qtbot)
    until_open(window, qtbot, chat)
    window.sidebar.rename()
    editor = window.sidebar.view.findChild(QLineEdit)
    window.chats.delete(other)
    until_rows(window, qtbot, "Before")
    window.sidebar.rename()  # Qt has the field, but does not call it editing any more
    assert window.sidebar.view.findChildren(QLineEdit) == [editor]
    qtbot.keyClicks(editor, "After")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    until_rows(window, qtbot, "After")


def test_a_menu_of_a_chat_that_is_gone_does_no_harm(open_window: OpenWindow, qtbot: QtBot) -> None:
    chat = stored(lambda store: fill(store, "Here"))[0]
    window = ready(open_window(), qtbot)
    until_rows(window, qtbot, "Here")
    menu = window.sidebar.menu_for(window.sidebar.model.index(0))
    stored(lambda store: store.delete(chat))  # in another window
    window.sidebar.model.refresh()
    until_rows(window, qtbot)
    for action in menu.actions():
        if action.text() in ("Rename", "Delete"):
            action.trigger()
    menu.close()
    assert stored(lambda store: store.get(chat)).title == "Here"
    assert window.sidebar.undo.isVisible()


def test_a_chat_without_anything_is_not_deleted_under_another_window(open_window: OpenWindow, qtbot: QtBot) -> None:
    first = ready(open_window(), qtbot)
    qtbot.keyClicks(first.composer.field, "x")
    qtbot.waitUntil(lambda: first.chats.current.chat is not None, timeout=WAIT_MS)
    second = ready(open_window(), qtbot)
    until_open(second, qtbot, open_chat(first))
    first.chats._drafts._timer.stop()
    first.composer.field.clear()
    send(second, qtbot, "Mine")
    until_answered(second, qtbot)
    first.chats.new()
    qtbot.waitUntil(lambda: not first.chats._tasks._running, timeout=WAIT_MS)
    until_rows(second, qtbot, "xMine")


def test_an_empty_chat_that_was_brought_back_and_left_at_once_is_not_left_over(
    open_window: OpenWindow, qtbot: QtBot
) -> None:
    window = ready(open_window(), qtbot)
    qtbot.keyClicks(window.composer.field, "x")
    qtbot.waitUntil(lambda: window.sidebar.model.rowCount() == 1, timeout=WAIT_MS)
    window.composer.field.clear()
    window.sidebar.delete()
    until_rows(window, qtbot)
    window.sidebar.undo.button.click()
    window.chats.new()
    qtbot.waitUntil(lambda: not window.chats._tasks._running, timeout=WAIT_MS)
    assert stored(lambda store: store.page(10)) == ()
    until_rows(window, qtbot)
