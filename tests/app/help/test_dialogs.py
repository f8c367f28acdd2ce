"""The dialogs that explain: keys, log, about. They fit a small window and are named for screen readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible, QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QDialog, QLabel, QPlainTextEdit
from pytestqt.qtbot import QtBot

from app import logs
from app.help.about import About
from app.help.keys import KeySheet
from app.help.licences import licence_texts, packages
from app.help.log_viewer import LogViewer
from app.surroundings import Surroundings
from helpers.window import WAIT_MS

OpenAround = Callable[..., Surroundings]


@pytest.fixture
def no_dialog_left(qapp: QApplication) -> Iterator[None]:  # noqa: ARG001
    yield
    for dialog in QApplication.topLevelWidgets():
        if isinstance(dialog, QDialog):
            dialog.close()


def dialog_of(kind: type[QDialog], qtbot: QtBot) -> QDialog:
    def found() -> list[QDialog]:
        return [each for each in QApplication.topLevelWidgets() if isinstance(each, kind) and each.isVisible()]

    qtbot.waitUntil(lambda: bool(found()))
    return found()[0]


@pytest.mark.usefixtures("no_dialog_left")
def test_the_sheet_lists_every_key_of_the_window(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({"send_key": "ctrl+enter"})
    qtbot.keyClick(around._window, Qt.Key.Key_F1)
    sheet = dialog_of(KeySheet, qtbot)
    texts = [each.text() for each in sheet.findChildren(QLabel)]
    for command in around._window.commands:
        if command.key:
            assert command.text in texts
            assert command.key in texts
    assert texts[texts.index("Send the message") + 1] == "Ctrl+Enter"


def test_the_commands_of_the_surroundings_share_no_key_and_stand_in_the_menu(open_around: OpenAround) -> None:
    window = open_around({})._window
    keys = [command.key for command in window.commands if command.key]
    assert len(keys) == len(set(keys))
    menu = window.menu_button.menu()
    sections = {action.text(): action.menu() for action in menu.actions()}
    assert [*sections] == ["Chat", "Answer", "Model", "View", "Help"]
    assert "Settings …" in [action.text() for action in sections["View"].actions()]
    assert [action.text() for action in sections["Help"].actions()] == ["Keys", "Log", "About Mirror SD"]


@pytest.mark.usefixtures("no_dialog_left")
def test_about_tells_versions_devices_and_licences(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({})
    qtbot.waitUntil(lambda: around._window.pair_button.state_text == "ready", timeout=WAIT_MS)
    around.open_about()
    about = dialog_of(About, qtbot)
    assert isinstance(about, About)
    assert "MLX 0.0.0, on cpu, OpenBLAS" in about.facts
    qtbot.keyClick(about.which, Qt.Key.Key_Down)
    assert "Shipped with Mirror SD" in about.text.toPlainText()


def test_licences_name_all_that_is_needed() -> None:
    texts = licence_texts()
    assert "Permission is hereby granted" in texts["Mirror SD"]
    assert "GNU Lesser General Public License" in texts["Qt"]
    assert "Apache License" in texts["Apache License 2.0"]
    listed = [line.split()[0].lower().replace("_", "-") for line in packages()]
    assert {"pyside6-essentials", "shiboken6", "mlx", "mlx-lm", "transformers", "huggingface-hub"} <= set(listed)
    assert "pytest" not in listed
    assert not [line for line in packages() if line.endswith(": ")]


@pytest.fixture
def log(home: Path) -> Path:  # noqa: ARG001
    file = logs.log_file()
    file.write_text(
        "2026-11-30 10:00:00,000 INFO app: all well\n"
        "2026-11-30 10:00:01,000 ERROR app: not so well\nTraceback\n"
        "2026-11-30 10:00:02,000 WARNING app: careful\n"
    )
    return file


def test_the_log_is_shown_by_level_and_followed(log: Path, qtbot: QtBot) -> None:
    viewer = LogViewer(log)
    qtbot.addWidget(viewer)
    viewer.show()
    assert viewer.text.toPlainText().splitlines() == log.read_text().splitlines()
    viewer.level.setCurrentIndex(1)
    assert [line[24:29] for line in viewer.text.toPlainText().splitlines()] == ["ERROR", "", "WARNI"]
    viewer.level.setCurrentIndex(2)
    assert viewer.text.toPlainText().endswith("not so well\nTraceback")
    with log.open("a") as file:
        file.write("2026-11-30 10:00:03,000 CRITICAL app: the end\n")
    qtbot.waitUntil(lambda: viewer.text.toPlainText().endswith("the end"))
    next(each for each in viewer.findChildren(QAbstractButton) if each.text() == "Copy").click()
    assert QGuiApplication.clipboard().text().endswith("the end")
    viewer.follow.setChecked(False)
    with log.open("a") as file:
        file.write("2026-11-30 10:00:04,000 CRITICAL app: one more\n")
    assert not viewer._timer.isActive()
    assert viewer.text.toPlainText().endswith("the end")
    viewer.follow.setChecked(True)
    assert viewer.text.toPlainText().endswith("one more")
    viewer.close()


def test_a_huge_log_shows_its_end_and_a_missing_one_says_so(log: Path, qtbot: QtBot) -> None:
    with log.open("a") as file:
        file.writelines(f"2026-11-30 10:00:05,000 INFO app: line {number}\n" for number in range(40_000))
    viewer = LogViewer(log)
    qtbot.addWidget(viewer)
    viewer.show()
    lines = viewer.text.toPlainText().splitlines()
    assert lines[-1].endswith("line 39999")
    assert 1000 < len(lines) < 10_000
    viewer.close()
    log.unlink()
    viewer.show()
    assert "cannot be read" in viewer.text.toPlainText()
    viewer.close()


@pytest.mark.usefixtures("no_dialog_left")
@pytest.mark.parametrize("text_px", [14, 28])
def test_dialogs_fit_a_small_window_and_name_their_controls(
    open_around: OpenAround, qtbot: QtBot, text_px: int
) -> None:
    around = open_around({"text_px": text_px})
    for open_, kind in (
        (around.open_keys, KeySheet),
        (around.open_log, LogViewer),
        (around.open_about, About),
    ):
        open_()
        dialog = dialog_of(kind, qtbot)
        assert dialog.width() <= 900
        assert dialog.height() <= 600
        for widget in dialog.findChildren(QAbstractButton) + dialog.findChildren(QComboBox):
            if widget.isVisible():
                interface = QAccessible.queryAccessibleInterface(widget)
                assert interface.text(QAccessible.Text.Name), widget
                assert dialog.rect().contains(widget.rect().translated(widget.mapTo(dialog, QPoint(0, 0)))), widget
        for text in dialog.findChildren(QPlainTextEdit):
            assert text.accessibleName()
        dialog.close()
