"""The log in a window: its last lines, by level, followed as it grows."""

from __future__ import annotations

import os
import re
from pathlib import Path

from PySide6.QtCore import QSize, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import QCheckBox, QDialog, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from app.combo_box import ComboBox
from app.language import tr
from app.theme import code_font
from app.widgets import label, push_button, set_kind

_SMALLEST, _FIRST_SIZE = QSize(560, 360), QSize(860, 580)
_SHOWN_BYTES = 256 * 1024
_LOOK_MS = 500
_LEVELS = {
    tr("Everything"): (),
    tr("Warnings and errors"): ("WARNING", "ERROR", "CRITICAL"),
    tr("Errors"): ("ERROR", "CRITICAL"),
}
_RECORD = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ (DEBUG|INFO|WARNING|ERROR|CRITICAL) ")


class LogViewer(QDialog):
    """Reads the file while it is shown, and never more than its end."""

    def __init__(self, file: Path, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Log"))
        self.setMinimumSize(_SMALLEST)
        self._file = file
        self._size = -1
        self.level = ComboBox()
        self.level.setAccessibleName(tr("Which lines"))
        self.level.addItems(list(_LEVELS))
        self.level.currentIndexChanged.connect(self._read)
        self.follow = QCheckBox(tr("Follow"))
        self.follow.setToolTip(tr("Go on to new lines as they come"))
        self.follow.setChecked(True)
        self.follow.toggled.connect(self._on_follow)
        self.text = QPlainTextEdit()
        set_kind(self.text, "log")
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setUndoRedoEnabled(False)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setAccessibleName(tr("Lines of the log"))
        self._timer = QTimer(self)
        self._timer.setInterval(_LOOK_MS)
        self._timer.timeout.connect(self._look)
        self._lay_out()
        self.resize(_FIRST_SIZE)

    def _lay_out(self) -> None:
        copy = push_button(tr("Copy"), tr("Copy what is shown"))
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        folder = push_button(tr("Open folder"), tr("Show the log's file among the files"))
        folder.clicked.connect(lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._file.parent))))
        close = push_button(tr("Close"), tr("Back to the chat"))
        close.clicked.connect(self.close)
        title = QHBoxLayout()
        title.addWidget(label(tr("Log"), "title"), 1)
        title.addWidget(close)
        tools = QHBoxLayout()
        tools.setSpacing(12)
        tools.addWidget(self.level)
        tools.addWidget(self.follow)
        tools.addStretch(1)
        tools.addWidget(copy)
        tools.addWidget(folder)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 20)
        layout.setSpacing(10)
        layout.addLayout(title)
        layout.addLayout(tools)
        layout.addWidget(self.text, 1)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Read, and follow while shown."""
        super().showEvent(event)
        self.text.setFont(code_font())
        self._read()
        self._on_follow()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Nothing is read that nobody sees."""
        self._timer.stop()
        super().hideEvent(event)

    def _on_follow(self) -> None:
        if self.follow.isChecked() and self.isVisible():
            self._look()
            self._timer.start()
        else:
            self._timer.stop()

    def _look(self) -> None:
        if self._file.exists() and self._file.stat().st_size != self._size:
            self._read()

    def _read(self) -> None:
        wanted = list(_LEVELS.values())[self.level.currentIndex()]
        self.text.setPlainText("\n".join(_of_levels(self._last_lines(), wanted)))
        bar = self.text.verticalScrollBar()
        bar.setValue(bar.maximum())

    def _last_lines(self) -> list[str]:
        try:
            with self._file.open("rb") as log:
                self._size = log.seek(0, os.SEEK_END)
                log.seek(max(0, self._size - _SHOWN_BYTES))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError as error:
            return [tr("The log cannot be read: {error}").format(error=error)]
        return lines[1:] if self._size > _SHOWN_BYTES else lines


def _of_levels(lines: list[str], wanted: tuple[str, ...]) -> list[str]:
    """Records of these levels, with the lines that belong to them; all where none is named."""
    kept, taken = [], True
    for line in lines:
        if record := _RECORD.match(line):
            taken = not wanted or record.group(1) in wanted
        if taken:
            kept.append(line)
    return kept
