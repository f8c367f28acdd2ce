"""The dialog that checks a pair, with the stand-in engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QTableWidget
from pytestqt.qtbot import QtBot

from app.check.check_dialog import CheckDialog
from app.check.check_model import CheckState
from app.generation import State
from app.main_window import MainWindow
from app.theme import Theme
from core.bench.prompts import FEW_PROMPTS
from helpers.window import WAIT_MS, OpenWindow


def opened(window: MainWindow, qtbot: QtBot) -> CheckDialog:
    qtbot.waitUntil(lambda: window.pair_button.state_text == "ready", timeout=WAIT_MS)
    window.tools.open_check()
    assert window.tools.check is not None
    return window.tools.check


def until(qtbot: QtBot, dialog: CheckDialog, *states: CheckState) -> None:
    qtbot.waitUntil(lambda: dialog._model.state in states, timeout=WAIT_MS)


def cells(table: QTableWidget, row: int) -> list[str]:
    return [item.text() if (item := table.item(row, column)) else "" for column in range(table.columnCount())]


def test_a_check_fills_its_tables_and_ends_with_a_verdict(open_window: OpenWindow, qtbot: QtBot) -> None:
    dialog = opened(open_window("--missing-mirror", "Layer 2 differs."), qtbot)
    assert not dialog.copy.isEnabled()
    qtbot.keyClick(dialog.start, Qt.Key.Key_Space)
    until(qtbot, dialog, CheckState.DONE)
    assert dialog.summary.text() == "All answers are those of plain decoding, token for token."
    assert dialog.summary.property("dress") == "good"
    assert dialog.missing.text() == "Not checked: Mirror. Layer 2 differs."
    assert dialog.by_prompt.rowCount() == len(FEW_PROMPTS)
    assert cells(dialog.by_prompt, 3) == [FEW_PROMPTS[3], "20.0", "40.0  ="]
    assert cells(dialog.by_mode, 0) == ["Plain decoding", "10 of 10", "—", "—", "20.0", "—", "1.00", "—", "—"]
    assert cells(dialog.by_mode, 1) == ["CPU draft", "10 of 10", "—", "—", "40.0", "2.00x", "2.00", "75%", "50%"]
    assert dialog.bar.value() == dialog.bar.maximum() == 1
    dialog.copy.click()
    copied = QGuiApplication.clipboard().text()
    assert copied.startswith("Test pair: 10 prompts, 64 tokens at most, greedy\nNot checked: mirror.")
    assert "gpu       10 of 10     40.0     2.00x" in copied
    assert copied.endswith("All answers are those of plain decoding, token for token.")


def test_all_modes_are_in_sight_in_the_smallest_dialog(open_window: OpenWindow, theme: Theme, qtbot: QtBot) -> None:
    theme.set_sizes(40, 40)
    dialog = opened(open_window(), qtbot)
    dialog.resize(dialog.minimumSize())
    dialog.start.click()
    until(qtbot, dialog, CheckState.DONE)
    qtbot.waitUntil(lambda: dialog.by_mode.verticalScrollBar().maximum() == 0)
    last = dialog.by_mode.visualItemRect(dialog.by_mode.item(dialog.by_mode.rowCount() - 1, 0))
    assert dialog.by_mode.viewport().rect().contains(last)


def test_another_text_is_named_with_its_place(open_window: OpenWindow, qtbot: QtBot) -> None:
    dialog = opened(open_window("--differ"), qtbot)
    dialog.start.click()
    until(qtbot, dialog, CheckState.DONE)
    assert dialog.summary.text() == "NOT the answers of plain decoding: CPU draft."
    assert dialog.summary.property("dress") == "bad"
    assert cells(dialog.by_mode, 1)[1:4] == ["9 of 10", "prompt 1, token 8: ' other' for ' plain'", "no"]
    assert cells(dialog.by_prompt, 0)[2] == "40.0  different"
    item = dialog.by_prompt.item(0, 2)
    assert item is not None
    assert "' other' for ' plain'" in item.toolTip()
    dialog.copy.click()
    assert "gpu, prompt 1, token 8: plain decoding said ' plain'" in QGuiApplication.clipboard().text()


def test_progress_is_told_per_prompt_and_a_stop_keeps_what_was_found(open_window: OpenWindow, qtbot: QtBot) -> None:
    dialog = opened(open_window("--steps-per-second", "4"), qtbot)
    dialog.start.click()
    qtbot.waitUntil(lambda: dialog.stage.text() == "Decoding prompt 2 in mode plain", timeout=WAIT_MS)
    assert (dialog.bar.value(), dialog.bar.maximum()) == (2, 20)
    assert not dialog.start.isEnabled()
    assert not dialog.tokens.isEnabled()
    dialog.stop.click()
    until(qtbot, dialog, CheckState.STOPPED)
    assert dialog.summary.text() == "Stopped before its end: no verdict."
    assert cells(dialog.by_prompt, 0)[2] == "40.0  ="
    assert cells(dialog.by_mode, 1)[:5] == ["CPU draft", "1 of 1", "—", "—", "40.0"]
    assert cells(dialog.by_mode, 1)[5:] == ["—", "2.00", "—", "—"]
    dialog.copy.click()
    assert QGuiApplication.clipboard().text().endswith("Stopped before its end: no verdict.")
    dialog.start.click()
    until(qtbot, dialog, CheckState.RUNNING)
    assert dialog.by_prompt.rowCount() == 0
    dialog.stop.click()
    until(qtbot, dialog, CheckState.STOPPED)


def test_own_prompts_come_from_a_file(open_window: OpenWindow, qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("One\n\nTwo\n")
    dialog = opened(open_window(), qtbot)
    dialog.choose_file.click()
    chooser = dialog.findChild(QFileDialog)
    assert chooser is not None
    with qtbot.waitSignal(chooser.fileSelected):
        chooser.setDirectory(str(tmp_path))
        chooser.selectFile("mine.txt")
        chooser.accept()
    assert dialog.prompts.text() == "Prompts: mine.txt"
    dialog.start.click()
    until(qtbot, dialog, CheckState.DONE)
    assert [cells(dialog.by_prompt, row)[0] for row in range(2)] == ["One", "Two"]
    dialog.built_in.click()
    assert dialog.prompts.text() == "Prompts: 10 built-in ones"


@pytest.mark.parametrize(("content", "sentence"), [(b"\xff\xfe\xff", "cannot be read as text"), (b"\n", "no prompts")])
def test_a_file_without_prompts_is_refused(
    open_window: OpenWindow, qtbot: QtBot, tmp_path: Path, content: bytes, sentence: str
) -> None:
    (tmp_path / "bad.txt").write_bytes(content)
    dialog = opened(open_window(), qtbot)
    dialog.use_prompts(tmp_path / "bad.txt")
    dialog.start.click()
    until(qtbot, dialog, CheckState.FAILED)
    assert sentence in dialog.notice.sentence.text()
    dialog.use_prompts(None)
    dialog.start.click()
    assert not dialog.notice.isVisible()
    until(qtbot, dialog, CheckState.DONE)


def test_a_check_waits_for_no_answer_it_says_that_one_is_written(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = open_window("--answer", "word " * 200, "--steps-per-second", "20")
    dialog = opened(window, qtbot)
    window.chats.send("Hello")
    qtbot.waitUntil(lambda: window.generation.state is State.ANSWERING, timeout=WAIT_MS)
    dialog.start.click()
    assert dialog.notice.sentence.text() == "An answer is under way, and the engine does one thing at a time."
    assert dialog._model.state is CheckState.IDLE
    window.generation.stop()
    qtbot.waitUntil(lambda: window.generation.state is State.IDLE, timeout=WAIT_MS)
    dialog.start.click()
    until(qtbot, dialog, CheckState.RUNNING, CheckState.DONE)
    dialog.stop.click()
    until(qtbot, dialog, CheckState.STOPPED, CheckState.DONE)


def test_a_message_during_a_check_is_kept_and_can_be_tried_again(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = open_window("--steps-per-second", "20")
    dialog = opened(window, qtbot)
    dialog.start.click()
    until(qtbot, dialog, CheckState.RUNNING)
    window.chats.send("Hello")
    qtbot.waitUntil(lambda: window.generation.state is State.FAILED, timeout=WAIT_MS)
    assert "A check of the pair is under way" in window.notice.sentence.text()
    assert dialog._model.running
    dialog.stop.click()
    until(qtbot, dialog, CheckState.STOPPED)
    window.chats.retry()
    qtbot.waitUntil(lambda: window.generation.state is State.IDLE, timeout=WAIT_MS)
    assert window.transcript.answer is not None
    assert window.transcript.answer.source == "Hello there, this is an answer."


def test_without_a_pair_there_is_nothing_to_check(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = open_window("--fail-load")
    qtbot.waitUntil(lambda: window.generation.state is State.FAILED, timeout=WAIT_MS)
    window.tools.open_check()
    assert window.tools.check is not None
    window.tools.check.start.click()
    assert window.tools.check.notice.sentence.text() == "No pair is loaded."


def test_the_end_of_the_engine_process_ends_the_check(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = open_window("--die-after-steps", "2")
    dialog = opened(window, qtbot)
    dialog.start.click()
    until(qtbot, dialog, CheckState.FAILED)
    assert "SIGKILL" in dialog.notice.sentence.text()
    assert cells(dialog.by_prompt, 0)[2] == "40.0  ="
    qtbot.waitUntil(lambda: window.pair_button.state_text != "ready", timeout=WAIT_MS)


def test_closing_the_dialog_stops_the_check(open_window: OpenWindow, qtbot: QtBot) -> None:
    dialog = opened(open_window("--steps-per-second", "20"), qtbot)
    dialog.start.click()
    until(qtbot, dialog, CheckState.RUNNING)
    qtbot.waitUntil(dialog.isActiveWindow)
    qtbot.keyClick(dialog.close_button, Qt.Key.Key_Escape)
    assert not dialog.isVisible()
    until(qtbot, dialog, CheckState.STOPPED)


def test_the_window_can_be_closed_in_the_middle_of_a_check(open_window: OpenWindow, qtbot: QtBot) -> None:
    dialog = opened(open_window("--steps-per-second", "5"), qtbot)
    dialog.start.click()
    until(qtbot, dialog, CheckState.RUNNING)  # the fixture closes the window and looks for what is left over
