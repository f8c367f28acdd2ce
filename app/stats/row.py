"""A figure: its name on the left, its value on the right."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.stats.words import MISSING
from app.widgets import label, set_style_property

_GAP = 8


class FigureRow(QWidget):
    """Where the value is missing, `why` says so when the pointer rests on it."""

    def __init__(self, title: str, why: str = "") -> None:
        super().__init__()
        self._title = title
        self._why = why
        self._name = label(title, "muted")
        self._value = label("", "value", wraps=True)
        self._layout = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addWidget(self._name, 0, Qt.AlignmentFlag.AlignTop)
        self._layout.addWidget(self._value, 1)
        self._value.setAccessibleName(f"{title}: {MISSING}")
        self.set_stacked(False)
        self.show_value(MISSING)

    @property
    def text(self) -> str:
        """The value."""
        return self._value.text()

    @property
    def warns(self) -> bool:
        """Whether the value stands in the colour of warnings."""
        return bool(self._value.property("warns"))

    def set_stacked(self, stacked: bool) -> None:
        """Put the value below the name, where both have no room side by side."""
        direction = QBoxLayout.Direction.TopToBottom if stacked else QBoxLayout.Direction.LeftToRight
        self._layout.setDirection(direction)
        self._layout.setSpacing(0 if stacked else _GAP)
        self._name.setWordWrap(stacked)
        side = Qt.AlignmentFlag.AlignLeft if stacked else Qt.AlignmentFlag.AlignRight
        self._value.setAlignment(side | Qt.AlignmentFlag.AlignTop)

    def show_value(self, text: str, *more: str, warns: bool = False) -> None:
        """`more` shows when the pointer rests on it."""
        set_style_property(self._value, "warns", warns)
        if text == MISSING:
            self.setToolTip(self._why)
        else:
            self.setToolTip("\n".join((text, *filter(None, more))) if any(more) else "")
        if text != self._value.text():
            self._value.setText(text)
            self._value.setAccessibleName(f"{self._title}: {text}")
            self._value.setAccessibleDescription(self.toolTip())
