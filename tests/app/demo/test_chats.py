"""Several chats on the real engine: written beside each other, named, found, brought back, carried in files."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from app.chats.list_model import Role
from app.main_window import MainWindow
from app.theme import Colors
from helpers.chats_window import (
    open_chat,
    rows,
    send,
    shown,
    stored,
    until_answered,
    until_open,
    until_rows,
)
from helpers.looks import assert_sound_look
from helpers.window import WAIT_MS

pytestmark = [pytest.mark.slow]
Control = Qt.KeyboardModifier.ControlModifier
FRANCE = "What is the capital of France?"
UNSENT = "Name a colour"


def test_chats_go_on_beside_each_other_and_are_named_found_and_brought_back(
    window: MainWindow, colors: Colors, qtbot: QtBot, tmp_path: Path
) -> None:
    window.chats.use_settings(msgspec.structs.replace(window.chats.settings, max_tokens=24))
    first, second = two_chats(window, qtbot)
    rename_and_pin(window, qtbot, first, second)
    find(window, qtbot, first)
    delete_and_undo(window, qtbot, first)
    assert window.sidebar.grab().toImage().pixelColor(3, 3).name() == colors.panel
    carry_in_files(window, qtbot, tmp_path, first)
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)


def two_chats(window: MainWindow, qtbot: QtBot) -> tuple[int, int]:
    """One is answered while the other is open, in which something stays unsent meanwhile."""
    shown_at_end: list[int | None] = []
    window.generation.answer_ended.connect(lambda _: shown_at_end.append(window.chats.current.chat_id))
    send(window, qtbot, FRANCE)
    first = open_chat(window)
    qtbot.keyClick(window, Qt.Key.Key_N, Control)
    assert shown(window) == ""
    qtbot.keyClicks(window.composer.field, UNSENT)
    qtbot.waitUntil(lambda: bool(shown_at_end) and window.chats.current.chat is not None, timeout=WAIT_MS)
    assert shown_at_end != [first]
    assert shown(window) == ""
    second = open_chat(window)
    until_open(window, qtbot, first)
    assert "Paris" in until_answered(window, qtbot).content
    assert "Paris" in shown(window)
    assert window.windowTitle() == f"{FRANCE} – Mirror SD"
    assert window.composer.field.toPlainText() == ""
    until_open(window, qtbot, second)
    assert window.composer.field.toPlainText() == UNSENT
    send(window, qtbot, " of the sky.")
    assert until_answered(window, qtbot).content
    until_rows(window, qtbot, f"{UNSENT} of the sky.", FRANCE)
    return first, second


def rename_and_pin(window: MainWindow, qtbot: QtBot, first: int, second: int) -> None:
    assert open_chat(window) == second
    qtbot.keyClick(window, Qt.Key.Key_F2)
    editor = window.sidebar.view.findChild(QLineEdit)
    assert editor is not None
    editor.setText("The sky")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    until_rows(window, qtbot, "The sky", FRANCE)
    qtbot.waitUntil(lambda: window.windowTitle() == "The sky – Mirror SD", timeout=WAIT_MS)
    until_open(window, qtbot, first)
    window.sidebar.pin()
    until_rows(window, qtbot, FRANCE, "The sky")
    assert rows(window, Role.GROUP) == ["Pinned", "Today"]
    until_open(window, qtbot, second)


def find(window: MainWindow, qtbot: QtBot, first: int) -> None:
    """A word of the answer leads to it from another chat."""
    bar = window.room.find_bar
    qtbot.keyClick(window, Qt.Key.Key_K, Control)
    qtbot.waitUntil(window.sidebar.search.hasFocus)
    qtbot.keyClicks(window.sidebar.search, "paris")
    until_rows(window, qtbot, FRANCE)
    (snippet,) = rows(window, Role.SNIPPET)
    assert {piece.text for piece in snippet if piece.found} == {"Paris"}
    qtbot.keyClick(window.sidebar.search, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window.chats.current.chat_id == first and bar.total > 0, timeout=WAIT_MS)
    assert {hit.selectedText() for searched in bar._searched for hit in searched.hits} == {"Paris"}
    bar.close_bar()
    window.sidebar.search.clear()
    until_rows(window, qtbot, FRANCE, "The sky")


def delete_and_undo(window: MainWindow, qtbot: QtBot, first: int) -> None:
    before = window.chats.current.path
    qtbot.keyClick(window, Qt.Key.Key_Backspace, Control | Qt.KeyboardModifier.ShiftModifier)
    until_rows(window, qtbot, "The sky")
    assert window.chats.current.chat is None
    window.sidebar.undo.button.click()
    until_rows(window, qtbot, FRANCE, "The sky")
    qtbot.waitUntil(lambda: window.chats.current.chat_id == first, timeout=WAIT_MS)
    assert window.chats.current.path == before


def carry_in_files(window: MainWindow, qtbot: QtBot, folder: Path, first: int) -> None:
    """One chat as Markdown, all as JSON, and back."""
    wanted = [message.content for message in window.chats.current.path]
    for name, chat_id in (("chat.md", first), ("all.json", None)):
        window.files.export(folder / name, chat_id)
        qtbot.waitUntil(lambda name=name: window.room.told.text() == f"Exported to {name}.", timeout=WAIT_MS)
    assert {chat["title"] for chat in json.loads((folder / "all.json").read_text())["chats"]} == {FRANCE, "The sky"}
    window.files.import_files([folder / "chat.md"])
    qtbot.waitUntil(lambda: open_chat(window) != first, timeout=WAIT_MS)
    assert [message.content for message in window.chats.current.path] == wanted
    window.files.import_files([folder / "all.json"])
    qtbot.waitUntil(lambda: sorted(rows(window)) == ["The sky"] * 2 + [FRANCE] * 3, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window.room.told.text() == "Imported 2 chats.", timeout=WAIT_MS)
    held = stored(lambda store: [store.messages.path(chat.id)[1] for chat in store.page(9) if chat.title == FRANCE])
    assert [message.content for message in held] == wanted[1:] * 3
    figures = [message.figures for message in held if message.figures is not None]
    assert len(figures) == 2  # Markdown carries none
    assert figures[0] == figures[1]
