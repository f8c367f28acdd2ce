"""In another language every text of the window is that language's, and everything still works."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLabel, QLineEdit, QPlainTextEdit, QWidget
from pytestqt.qtbot import QtBot

from app.help.about import About
from app.help.keys import KeySheet
from app.surroundings import Surroundings
from helpers.chats_window import until_answered
from helpers.window import WAIT_MS

MARKED = re.compile("⟦[^⟦⟧]*(⟦[^⟦⟧]*⟧[^⟦⟧]*)*⟧")
DATA = re.compile(
    r"Mirror SD|Hello there|this is an answer|Test pair|OpenBLAS|stand-in|Python|Linux\S*|Apache License|tok/s"
    r"|\b(Ctrl|Shift|Enter|Esc|Tab|Space|Backspace|PgDown|PgUp|Up|Hi|cpu|ane|Qt|ms|s|MB|GB|px|x)\b"
)
"""What is no text of the window: names, answers, keys, units."""


def texts_of(widget: QWidget) -> Iterator[str]:
    yield from (widget.toolTip(), widget.accessibleName(), widget.accessibleDescription())
    if widget.isWindow():
        yield widget.windowTitle()
    if isinstance(widget, QLabel | QAbstractButton):
        yield widget.text()
    if isinstance(widget, QLineEdit | QPlainTextEdit):
        yield widget.placeholderText()
    if isinstance(widget, QComboBox):
        yield from (widget.itemText(number) for number in range(widget.count()))
    for action in widget.actions():
        if isinstance(action, QAction):
            yield from (action.text(), action.toolTip())


def unmarked(room: QWidget) -> set[str]:
    """Texts that hold words which no catalog gave."""
    found = set()
    for widget in (room, *room.findChildren(QWidget)):
        for text in texts_of(widget):
            left = re.sub(r"<[^>]*>", "", text)
            while MARKED.search(left):
                left = MARKED.sub("", left)
            if re.search(r"[A-Za-z]{2}", DATA.sub("", left)):
                found.add(f"{type(widget).__name__}: {text}")
    return found


def test_the_window_speaks_the_language_of_its_catalog(open_around: Callable[..., Surroundings], qtbot: QtBot) -> None:
    around = open_around({})
    window = around._window
    qtbot.waitUntil(lambda: window.pair_button.state_text == "⟦ready⟧", timeout=WAIT_MS)
    assert unmarked(window) == set()
    window.composer.field.setPlainText("Hi")
    window.composer.button.click()
    until_answered(window, qtbot)
    assert unmarked(window) == set()
    rooms: list[Callable[[], QWidget | None]] = [
        lambda: (window.tools.open_race(), window.tools.race)[1],
        lambda: (window.tools.open_check(), window.tools.check)[1],
        lambda: (around.open_settings(), around.page)[1],
        lambda: (window.open_picker(), window.picker)[1],
        lambda: (around.open_keys(), window.findChild(KeySheet))[1],
        lambda: (around.open_about(), window.findChild(About))[1],
        lambda: (around.open_log(), around.log_viewer)[1],
        window.room.open_options,
    ]
    for open_room in rooms:
        room = open_room()
        assert room is not None
        qtbot.wait(1)
        assert unmarked(room) == set()
        room.close()
