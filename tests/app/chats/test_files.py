"""Chats to files and back, and text files into messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.chats.files import file_name
from app.main_window import MainWindow
from helpers.chats_window import open_chat, ready, rows, send, shown, stored, until_answered, until_rows
from helpers.window import WAIT_MS, OpenWindow

Button, Key, Action = Qt.MouseButton, Qt.KeyboardModifier, Qt.DropAction


@pytest.fixture
def window(open_window: OpenWindow, qtbot: QtBot) -> MainWindow:
    return ready(open_window("--echo"), qtbot)


def drop(target: object, *paths: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    buttons = Button.LeftButton
    enter = QDragEnterEvent(QPoint(5, 5), Action.CopyAction, data, buttons, Key.NoModifier)
    QApplication.sendEvent(target, enter)  # type: ignore[arg-type]
    assert enter.isAccepted()
    QApplication.sendEvent(target, QDropEvent(QPointF(5, 5), Action.CopyAction, data, buttons, Key.NoModifier))  # type: ignore[arg-type]


def test_a_chat_goes_to_markdown_and_comes_back(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    send(window, qtbot, "Why?")
    until_answered(window, qtbot)
    path = tmp_path / "chat.md"
    window.files.export(path, open_chat(window))
    qtbot.waitUntil(lambda: window.room.told.text() == "Exported to chat.md.", timeout=WAIT_MS)
    assert path.read_text().startswith("# Why?")
    first = open_chat(window)
    window.files.import_files([path])
    qtbot.waitUntil(lambda: open_chat(window) != first, timeout=WAIT_MS)
    assert [message.content for message in window.chats.current.path] == ["Why?", "user: Why?"]
    until_rows(window, qtbot, "Why?", "Why?")


def test_all_chats_go_to_json_and_come_back(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    for text in ("One", "Two"):
        send(window, qtbot, text)
        until_answered(window, qtbot)
        window.chats.new()
    path = tmp_path / "all.json"
    window.files.export(path, None)
    qtbot.waitUntil(lambda: window.room.told.isVisible(), timeout=WAIT_MS)
    assert [chat["title"] for chat in json.loads(path.read_text())["chats"]] == ["One", "Two"]
    window.files.import_files([path])
    qtbot.waitUntil(lambda: sorted(rows(window)) == ["One", "One", "Two", "Two"], timeout=WAIT_MS)
    assert window.room.told.text() == "Imported 2 chats."
    qtbot.waitUntil(lambda: "user: Two" in shown(window), timeout=WAIT_MS)


def test_a_file_that_holds_no_chats_is_refused(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    window.files.import_files([path, tmp_path / "missing.json"])
    qtbot.waitUntil(lambda: "“missing.json” cannot be read." in window.notice.sentence.text(), timeout=WAIT_MS)
    assert rows(window) == []


def test_a_folder_that_cannot_be_written_is_told(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    window.files.export(tmp_path / "no such folder" / "chats.json", None)
    qtbot.waitUntil(window.notice.isVisible, timeout=WAIT_MS)
    assert window.notice.sentence.text() == "“chats.json” could not be written."


def test_files_dropped_on_the_window_are_attached(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")
    drop(window, path)
    qtbot.waitUntil(lambda: [file.name for file in window.composer.attachments.files] == ["notes.txt"], timeout=WAIT_MS)
    drop(window.composer.field.viewport(), path)  # the same once more
    other = tmp_path / "other.txt"
    other.write_text("more")
    drop(window.composer.field.viewport(), other)
    qtbot.waitUntil(lambda: len(window.composer.attachments.files) == 2, timeout=WAIT_MS)
    assert window.composer.field.toPlainText() == ""
    send(window, qtbot, "Read!")
    assert "dear diary" in until_answered(window, qtbot).content


def test_binary_and_long_files_are_refused_with_a_sentence(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    binary, long = tmp_path / "image.png", tmp_path / "long.txt"
    binary.write_bytes(b"\x89PNG\x00\xff")
    long.write_bytes(b"x" * 4_000_001)
    for path, sentence in ((binary, "“image.png” is not a text file."), (long, "“long.txt” is too long.")):
        window.files.attach([path])
        qtbot.waitUntil(lambda sentence=sentence: window.notice.sentence.text() == sentence, timeout=WAIT_MS)
    assert window.composer.attachments.files == ()


def test_an_attached_file_can_be_taken_away_and_stays_with_its_chat(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    qtbot.keyClicks(window.composer.field, "About these")
    window.files.attach([tmp_path / "a.txt", tmp_path / "b.txt"])
    qtbot.waitUntil(lambda: len(window.composer.attachments.files) == 2, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window.chats.current.chat is not None, timeout=WAIT_MS)
    chat = open_chat(window)
    window.chats.new()
    assert window.composer.attachments.files == ()
    window.chats.open(chat)
    qtbot.waitUntil(lambda: [file.name for file in window.composer.attachments.files] == ["a.txt", "b.txt"])
    window.composer.attachments._chips[0].findChildren(type(window.composer.attach))[0].click()
    assert [file.name for file in window.chats.current.files] == ["b.txt"]


def test_the_dialogs_ask_for_the_right_files(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    send(window, qtbot, "What: is/this?")
    until_answered(window, qtbot)
    window.files.ask_export()
    dialog = window.findChild(QFileDialog)
    assert dialog is not None
    assert Path(dialog.selectedFiles()[0]).name == "What is this.md"
    dialog.fileSelected.emit(str(tmp_path / "x.json"))
    dialog.reject()
    qtbot.waitUntil((tmp_path / "x.json").exists, timeout=WAIT_MS)
    assert stored(lambda store: len(store.page(9))) == 1


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("", "Chat.md"),
        ("a/b\\c:d", "a b c d.md"),
        ("..", "Chat.md"),
        ("x" * 300, "x" * 80 + ".md"),
        ("日本", "日本.md"),
    ],
)
def test_a_title_becomes_a_name_that_every_disk_takes(title: str, name: str) -> None:
    assert file_name(title) == name
