"""What is typed or attached and not sent outlives the window, however it ends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

from pytestqt.qtbot import QtBot

from app.main_window import MainWindow
from core.chats import ChatStore
from core.chats.attach import TextFile
from core.paths import chats_file
from helpers.chats_window import open_chat, ready, send, stored, until_answered, until_open
from helpers.window import WAIT_MS, OpenWindow, stand_in

NOTES = TextFile("notes.txt", "remember the milk\n")
TYPES = """
import asyncio, sys
import qasync
from PySide6.QtWidgets import QApplication
from app.engine import Engine
from app.main_window import MainWindow
from core.chats.attach import TextFile
from core.pairs import Pair

async def run():
    window = MainWindow(Engine(sys.argv[1:]), lambda: Pair("Test pair", "/nowhere/target.gguf", "/nowhere/draft"))
    window.show()
    window.start()
    await window.chats.keeper.opened()
    window.composer.field.insertPlainText("half a thought")
    window.composer.attachments.add(TextFile("notes.txt", "remember the milk\\n"))
    await asyncio.sleep(3600)

app = QApplication(sys.argv[:1])
with qasync.QEventLoop(app) as loop:
    loop.run_until_complete(run())
"""


def end(window: MainWindow, qtbot: QtBot) -> None:
    task = asyncio.get_running_loop().create_task(window.end())
    qtbot.waitUntil(task.done, timeout=WAIT_MS)
    task.result()


def unsent(store: ChatStore) -> list[tuple[str, tuple[TextFile, ...]]]:
    return [(store.get(chat.id).draft, store.draft_files(chat.id)) for chat in store.page(9)]


def test_attached_files_come_back_with_their_chat(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--echo"), qtbot)
    window.composer.attachments.add(NOTES)
    qtbot.waitUntil(lambda: window.chats.current.kept_files == (NOTES,), timeout=WAIT_MS)
    chat = open_chat(window)
    window.chats.new()
    assert window.composer.attachments.files == ()
    until_open(window, qtbot, chat)
    assert window.composer.attachments.files == (NOTES,)
    end(window, qtbot)
    second = ready(open_window("--echo"), qtbot)
    assert second.composer.attachments.files == (NOTES,)
    send(second, qtbot, "Look")
    until_answered(second, qtbot)
    assert stored(unsent) == [("", ())]
    assert stored(lambda store: store.messages.path(chat))[0].attachments[0].name == "notes.txt"
    end(second, qtbot)
    assert ready(open_window("--echo"), qtbot).composer.attachments.files == ()


def test_a_file_attached_a_moment_ago_is_kept_and_one_taken_away_is_gone(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    window.composer.attachments.add(NOTES)
    end(window, qtbot)
    assert stored(unsent) == [("", (NOTES,))]
    second = ready(open_window(), qtbot)
    until_open(second, qtbot, stored(lambda store: store.page(1)[0].id))
    second.composer.attachments.set_files(())
    second.composer.set_text("only words")
    end(second, qtbot)
    assert stored(unsent) == [("only words", ())]


def test_what_is_typed_and_attached_outlives_a_killed_window(open_window: OpenWindow, qtbot: QtBot) -> None:
    killed = subprocess.Popen([sys.executable, "-c", TYPES, *stand_in()])
    try:
        qtbot.waitUntil(
            lambda: chats_file().exists() and stored(unsent) == [("half a thought", (NOTES,))], timeout=WAIT_MS
        )
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    window = ready(open_window(), qtbot)
    until_open(window, qtbot, stored(lambda store: store.page(1)[0].id))
    assert window.composer.field.toPlainText() == "half a thought"
    assert window.composer.attachments.files == (NOTES,)
