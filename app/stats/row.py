"""A figure: its name on the left, its value on the right."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.stats.words import MISSING
from app.widgets import ElidedLabel, label


class FigureRow(QWidget):
    """Where the value is missing, `why` says so when the pointer rests on it."""

    def __init__(self, title: str, why: str = "") -> None:
        super().__init__()
        self._title = title
        self._why = why
        self._value = ElidedLabel("value")
        self._value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(label(title, "muted"))
        layout.addWidget(self._value, 1)
        self._value.setAccessibleName(f"{title}: {MISSING}")
        self.show_value(MISSING)

    @property
    def text(self) -> str:
        """The value as a whole."""
        return self._value.full_text()

    def show_value(self, text: str, *more: str) -> None:
        """`more` shows when the pointer rests on it."""
        if text == MISSING:
            self.setToolTip(self._why)
        else:
            self.setToolTip("\n".join((text, *filter(None, more))) if any(more) else "")
        if text != self._value.full_text():
            self._value.set_full_text(text)
            self._value.setAccessibleName(f"{self._title}: {text}")
            self._value.setAccessibleDescription(self.toolTip())
