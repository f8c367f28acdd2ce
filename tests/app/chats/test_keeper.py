"""The file: what is told when it cannot be used, and what a killed window leaves."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap

import pytest
from pytestqt.qtbot import QtBot

from core.paths import chats_file
from helpers.chats_window import LONG, ready, rows, send, shown, stored, until_answered, until_rows
from helpers.window import WAIT_MS, OpenWindow, stand_in

DRIVER = textwrap.dedent(
    """
    import sys
    from PySide6.QtCore import QTimer
    import app.application as application
    from core.pairs import Pair

    class Driven(application.MainWindow):
        def showEvent(self, event):
            super().showEvent(event)
            QTimer.singleShot(0, lambda: self.composer.submitted.emit("Count", ()))

    application.MainWindow = Driven
    sys.exit(application.run("dark", command=sys.argv[1:], pair=Pair("Test pair", "/x", "/y")))
    """
)


def works_in_memory(open_window: OpenWindow, qtbot: QtBot, sentence: str) -> None:
    window = ready(open_window("--echo"), qtbot)
    assert sentence in window.notice.sentence.text()
    assert "not kept" in window.notice.hint.text()
    send(window, qtbot, "Hello")
    assert until_answered(window, qtbot).content == "user: Hello"
    until_rows(window, qtbot, "Hello")


def test_a_file_of_a_newer_version_is_left_alone(open_window: OpenWindow, qtbot: QtBot) -> None:
    stored(lambda store: store.create())
    with sqlite3.connect(chats_file()) as file:
        file.execute("PRAGMA user_version = 99")
    file.close()
    works_in_memory(open_window, qtbot, "newer version")
    with sqlite3.connect(chats_file()) as file:
        assert file.execute("SELECT count(*) FROM chats").fetchone() == (1,)
    file.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_told(open_window: OpenWindow, qtbot: QtBot) -> None:
    folder = chats_file().parent
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        works_in_memory(open_window, qtbot, "cannot be written")
    finally:
        folder.chmod(stat.S_IRWXU)


def test_a_folder_in_the_place_of_the_file_is_told(open_window: OpenWindow, qtbot: QtBot) -> None:
    chats_file().mkdir()
    works_in_memory(open_window, qtbot, "chats")


def test_a_damaged_file_is_set_aside_and_told_and_what_can_be_read_is_there(
    open_window: OpenWindow, qtbot: QtBot
) -> None:
    def fill(store: object) -> None:
        for number in range(40):
            chat = store.create().id  # type: ignore[attr-defined]
            store.messages.add_user(chat, None, f"Question {number} " + "x" * 500)  # type: ignore[attr-defined]

    stored(fill)
    path = chats_file()
    with path.open("r+b") as file:
        file.seek(-8192, os.SEEK_END)
        file.write(b"\xaa" * 8192)
    path.with_name(f"{path.name}.suspect").touch()
    window = ready(open_window(), qtbot)
    assert "is damaged" in window.notice.sentence.text()
    assert "What could be read from it is in the list" in window.notice.hint.text()
    qtbot.waitUntil(lambda: len(rows(window)) > 10, timeout=WAIT_MS)
    assert list(path.parent.glob("*damaged*"))
    send(window, qtbot)
    until_answered(window, qtbot)


def test_a_killed_window_leaves_an_interrupted_answer_in_the_chat_that_opens_next(
    open_window: OpenWindow, qtbot: QtBot
) -> None:
    stored(lambda store: store.page(1))
    command = [sys.executable, "-c", DRIVER, *stand_in("--answer", LONG, "--steps-per-second", "25")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    file = sqlite3.connect(chats_file())

    def written() -> str:
        row = file.execute("SELECT content FROM messages WHERE role = 'assistant'").fetchone()
        return row[0] if row else ""

    try:
        qtbot.waitUntil(lambda: len(written()) > 40, timeout=WAIT_MS)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    kept = written()
    file.close()
    window = ready(open_window(), qtbot)
    question, answer = window.chats.current.path
    assert question.content == "Count"
    assert answer.state == "interrupted"
    assert answer.content == kept
    assert LONG.startswith(kept)
    assert kept[:20] in shown(window)
    assert window.chats.current.offer(answer.id).can_continue
