"""One side of the race: its text, its clock and its speed."""

from __future__ import annotations

from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QVBoxLayout, QWidget

from app.language import tr
from app.race import words
from app.race.recording import Recording
from app.widgets import ElidedLabel, label, set_kind

_LEAST_TEXT_PX = 90


class SideView(QFrame):
    """Shows a recording at a time of the clock."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "pair-card")
        self.title = label(name, "strong")
        self.line = ElidedLabel("value")
        self.first_token = ElidedLabel("muted")
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setMinimumHeight(_LEAST_TEXT_PX)
        self._shown = ""
        layout = QVBoxLayout(self)
        layout.setContentsMargins(14, 12, 14, 12)
        layout.setSpacing(6)
        for widget in (self.title, self.line, self.text, self.first_token):
            layout.addWidget(widget)
        self.name_it(name)

    def name_it(self, name: str) -> None:
        """What decodes on this side."""
        self.title.setText(name)
        self.text.setAccessibleName(tr("Answer of {name}").format(name=name))

    def show_waiting(self, text: str) -> None:
        """Before the side has anything to show."""
        self._set_text("")
        self.line.set_full_text(text)
        self.first_token.set_full_text("")

    def show_at(self, recording: Recording, time_s: float) -> None:
        """The side at this time."""
        moment = recording.at(time_s)
        self._set_text(recording.text[: moment.length])
        line = words.side_line(moment)
        self.line.set_full_text("  ·  ".join((line, tr("done"))) if moment.ended else line)
        self.first_token.set_full_text(words.first_token_line(recording))

    def _set_text(self, text: str) -> None:
        if text == self._shown:
            return
        if text.startswith(self._shown) and self._shown:
            cursor = QTextCursor(self.text.document())
            cursor.movePosition(QTextCursor.MoveOperation.End)
            cursor.insertText(text[len(self._shown) :])
        else:
            self.text.setPlainText(text)
        self._shown = text
        bar = self.text.verticalScrollBar()
        bar.setValue(bar.maximum())
