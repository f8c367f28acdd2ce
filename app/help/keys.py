"""The sheet of keys."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import get_args

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QDialog, QFrame, QGridLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.commands import SECTION_WORDS, Command, Section
from app.language import tr
from app.widgets import label, push_button, set_kind
from core.settings import SendKey

_SMALLEST, _FIRST_SIZE = QSize(460, 360), QSize(560, 560)


class KeySheet(QDialog):
    """All commands that have a key, by section, and the keys of fields and lists."""

    def __init__(self, commands: Iterable[Command], send_key: SendKey, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Keys"))
        self.setMinimumSize(_SMALLEST)
        body = QWidget()
        set_kind(body, "picker")
        self._grid = QGridLayout(body)
        self._grid.setContentsMargins(20, 4, 20, 20)
        self._grid.setHorizontalSpacing(24)
        self._grid.setVerticalSpacing(6)
        self._grid.setColumnStretch(0, 1)
        commands = list(commands)
        for section in get_args(Section):
            rows = [(command.text, command.key) for command in commands if command.section == section and command.key]
            if rows:
                self._add(SECTION_WORDS[section], rows)
        self._add(tr("Writing"), _writing_keys(send_key))
        self._add(
            tr("Everywhere"),
            [(tr("Next control"), "Tab"), (tr("Previous control"), "Shift+Tab"), (tr("Press it"), "Space")],
        )
        self._grid.setRowStretch(self._grid.rowCount(), 1)
        self._lay_out(body)
        self.resize(_FIRST_SIZE)

    def _add(self, title: str, rows: Iterable[tuple[str, str]]) -> None:
        self._grid.addWidget(label(title, "strong"), self._grid.rowCount(), 0)
        for text, key in rows:
            row = self._grid.rowCount()
            name, keys = label(text, "name", wraps=True), label(_native(key), "tag")
            name.setAccessibleName(f"{text}: {_native(key)}")
            self._grid.addWidget(name, row, 0)
            self._grid.addWidget(keys, row, 1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)

    def _lay_out(self, body: QWidget) -> None:
        close = push_button(tr("Close"), tr("Back to the chat"))
        close.clicked.connect(self.close)
        title = QHBoxLayout()
        title.setContentsMargins(20, 16, 20, 8)
        title.addWidget(label(tr("Keys"), "title"), 1)
        title.addWidget(close)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setAccessibleName(tr("Keys"))
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(body)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(title)
        layout.addWidget(area, 1)
        area.setFocus()


def _writing_keys(send_key: SendKey) -> list[tuple[str, str]]:
    if send_key == "enter":
        return [(tr("Send the message"), "Return"), (tr("New line"), "Shift+Return")]
    return [(tr("Send the message"), "Ctrl+Return"), (tr("New line"), "Return")]


def _native(key: str) -> str:
    text = QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)
    return text if sys.platform == "darwin" else text.replace("Return", "Enter")
