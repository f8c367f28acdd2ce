"""Steps of tests that work with chats in the window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTextBrowser
from pytestqt.qtbot import QtBot

from app.chats.list_model import Role
from app.main_window import MainWindow
from core.chats import ChatStore, Message
from core.paths import chats_file
from helpers.window import WAIT_MS

T = TypeVar("T")
LONG = " ".join(f"word{number}" for number in range(400))
SLOW = ("--answer", LONG, "--steps-per-second", "25")


def ready(window: MainWindow, qtbot: QtBot) -> MainWindow:
    """Wait for the pair and the chats."""
    qtbot.waitUntil(lambda: window.pair_button.state_text == "ready", timeout=WAIT_MS)
    qtbot.waitUntil(lambda: not window._tasks._running, timeout=WAIT_MS)
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    return window


def send(window: MainWindow, qtbot: QtBot, text: str = "Hi") -> None:
    """Type and send, and wait until it is asked."""
    qtbot.keyClicks(window.composer.field, text)
    qtbot.keyClick(window.composer.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not window.chats.current.asking, timeout=WAIT_MS)


def until_answered(window: MainWindow, qtbot: QtBot) -> Message:
    """Wait for the answer in the open chat, and until it is in the store."""
    chats = window.chats
    qtbot.waitUntil(lambda: chats.current.accepts_message and not chats.current.unkept, timeout=WAIT_MS)
    return chats.current.path[-1]


def until_open(window: MainWindow, qtbot: QtBot, chat_id: int) -> None:
    """Open a chat and wait for it."""
    window.chats.open(chat_id)
    qtbot.waitUntil(lambda: window.chats.current.chat_id == chat_id, timeout=WAIT_MS)


def open_chat(window: MainWindow) -> int:
    """The number of the open chat."""
    chat_id = window.chats.current.chat_id
    assert chat_id is not None
    return chat_id


def stored(work: Callable[[ChatStore], T]) -> T:
    """What another program finds in the file."""
    store = ChatStore.open(chats_file())
    try:
        return work(store)
    finally:
        store.close()


def shown(window: MainWindow) -> str:
    """All text of the transcript."""
    return "\n".join(view.toPlainText() for view in window.transcript.findChildren(QTextBrowser) if view.isVisible())


def rows(window: MainWindow, role: int = Qt.ItemDataRole.DisplayRole) -> list[Any]:
    """What the list shows."""
    model = window.sidebar.model
    return [model.data(model.index(row), role) for row in range(model.rowCount())]


def until_rows(window: MainWindow, qtbot: QtBot, *titles: str) -> None:
    """Wait until the list shows these."""
    qtbot.waitUntil(lambda: rows(window) == list(titles), timeout=WAIT_MS)


def activity(window: MainWindow) -> list[str]:
    """Which chats are being answered."""
    return rows(window, Role.ACTIVITY)
