"""Nonsense in every file that the window reads: it opens, tells what is wrong, and loses nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import window_state
from app.chats.known_pairs import known_pair, remember_pair
from app.main_window import MainWindow
from app.pairs.last_pair import first_pair, remember
from core.errors import Problem
from core.pairs import Pair, demo_pair
from core.paths import state_dir
from helpers.chats_window import ready, send, shown, until_answered, until_rows
from helpers.window import WAIT_MS, OpenWindow

DEEP = b'{"x":' + b"[" * 100_000
"""Deeper than any reader goes."""


# ---------------------------------------------------- what the window remembers


@pytest.mark.parametrize(
    "lines",
    [
        "geometry=nonsense",
        "geometry=a, b, c\nchats=@Rect(1 2 3)\nstatistics=7",
        "geometry=@Size(1 2)\nchat=99999999999999999999",
        "geometry=@ByteArray(\\x1\\xff)\nchat=-1",
        "geometry=@Variant(\\0\\0)\n[General\n\0\1=",
    ],
)
def test_whatever_stands_in_the_state_of_the_window_it_opens_and_keeps_its_chats(
    open_window: OpenWindow, qtbot: QtBot, lines: str
) -> None:
    (state_dir() / "window.ini").write_text(f"[General]\n{lines}\n")
    window = ready(open_window("--echo"), qtbot)
    assert window.isVisible()
    assert window.width() >= window_state.SMALLEST.width()
    send(window, qtbot, "Are you there?")
    assert until_answered(window, qtbot).content == "user: Are you there?"
    assert not window.notice.isVisible()


def test_the_chat_that_was_open_last_is_a_number_that_the_file_can_hold(home: Path) -> None:  # noqa: ARG001
    for number in (12, None, 10**15):
        window_state.remember_chat(number)
        assert window_state.last_chat() == number
    for text in ("99999999999999999999", "9" * 5000, "-1", "²", "1.5", "a, b", "@Size(1 2)"):
        (state_dir() / "window.ini").write_text(f"[General]\nchat={text}\n")
        assert window_state.last_chat() is None, text


# -------------------------------------------------------------- remembered pairs


NAMED = st.tuples(st.sampled_from(["name", "target", "draft", "x"]), st.deferred(lambda: VALUE))
VALUE: st.SearchStrategy[str] = st.one_of(
    st.sampled_from(["null", "1e400", '"\\ud800"', '"/"', "[]", "9" * 5000]),
    st.lists(NAMED, max_size=3).map(lambda each: "{" + ", ".join(f'"{name}": {value}' for name, value in each) + "}"),
)
NONSENSE = st.one_of(st.binary(max_size=40), VALUE.map(str.encode))


@settings(max_examples=60, deadline=None)
@given(data=NONSENSE)
@example(data=DEEP)
@example(data=b'{"name": "x", "target": "/\\u0000", "draft": null}')
@example(data=b'{"x": {"name": "x", "target": "' + b"a" * 10_000 + b'", "draft": null}}')
@example(data=b'{"Real": ' + DEEP)
def test_nonsense_in_the_remembered_pairs_leads_to_the_demo_pair_and_is_written_over(data: bytes) -> None:
    real = Pair("Real", demo_pair().target, None)
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRROR_SD_HOME", home)
        for name in ("last-pair.json", "known-pairs.json"):
            (state_dir() / name).write_bytes(data)
        assert first_pair().target
        assert known_pair("Real") is None
        remember(real)
        remember_pair(real)
        assert first_pair() == known_pair("Real") == real


# ------------------------------------------------------- what is given to the window


@pytest.fixture
def window(open_window: OpenWindow, qtbot: QtBot) -> MainWindow:
    return ready(open_window("--echo"), qtbot)


@pytest.fixture
def bad_files(tmp_path: Path) -> dict[Path, str]:
    """Files that are none, and how that is said after their names."""
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "loop.md").symlink_to(tmp_path / "loop.md")
    return {
        tmp_path / "pipe.md": "is not a file.",
        tmp_path / "folder.json": "is not a file.",
        Path("/dev/zero"): "is not a file.",
        tmp_path / f"{'x' * 300}.md": "cannot be read.",
        tmp_path / "pipe.md" / "within.md": "",
        tmp_path / "loop.md": "",
    }


def told(window: MainWindow, qtbot: QtBot, path: Path, sentence: str) -> None:
    def is_told() -> bool:
        text = window.notice.sentence.text()
        return window.notice.isVisible() and path.name in text and text.endswith(sentence)

    qtbot.waitUntil(is_told, timeout=WAIT_MS)


def test_what_is_no_file_is_neither_imported_nor_attached(
    window: MainWindow, qtbot: QtBot, bad_files: dict[Path, str]
) -> None:
    send(window, qtbot, "Mine")
    until_answered(window, qtbot)
    qtbot.keyClicks(window.composer.field, "unsent")
    for path, sentence in bad_files.items():
        for take in (window.files.import_files, window.files.attach):
            window.notice.hide()
            take([path])
            told(window, qtbot, path, sentence)
    until_rows(window, qtbot, "Mine")
    assert window.composer.attachments.files == ()
    assert window.composer.field.toPlainText() == "unsent"


NO_CHATS = {
    "deep.json": DEEP,
    "number.json": b'{"format": "mirror-sd-chats", "version": ' + b"9" * 5000 + b"}",
    "binary.json": bytes(range(256)),
    "wide.json": "{}".encode("utf-16"),
    "binary.md": bytes(range(256)),
    "other.md": b"# Notes\n\nBuy milk.\n",
    "date.md": b"## You, 0000-99-99 99:99\n\nHi\n",
    "empty.md": b"",
}


def test_files_that_hold_no_chats_add_nothing_and_a_good_one_behind_them_is_taken(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    problems: list[Problem] = []
    window.files.failed.connect(problems.append)
    for name, data in NO_CHATS.items():
        (tmp_path / name).write_bytes(data)
    good = tmp_path / "good.md"
    good.write_text("## You, 2026-01-02 03:04\n\nWhat is this?\n")
    window.files.import_files([*(tmp_path / name for name in NO_CHATS), good])
    until_rows(window, qtbot, "What is this?")
    qtbot.waitUntil(lambda: "What is this?" in shown(window), timeout=WAIT_MS)
    assert [problem.kind for problem in problems] == ["UnreadableImport"] * len(NO_CHATS)
    assert all(problem.sentence and problem.hint for problem in problems)


def test_addresses_that_are_dropped_are_not_fetched(window: MainWindow, qtbot: QtBot) -> None:
    data = QMimeData()
    addresses = ("https://example.org/a.txt", "data:text/plain,x", "", "javascript:1", "ftp://a/b")
    data.setUrls([QUrl(address) for address in addresses])
    button, key, action = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, Qt.DropAction.CopyAction
    for target in (window, window.composer.field.viewport()):
        QApplication.sendEvent(target, QDropEvent(QPointF(5, 5), action, data, button, key))
    send(window, qtbot, "Next")
    until_answered(window, qtbot)
    assert window.composer.attachments.files == ()
    assert not window.chats.current.path[0].attachments
