"""What an empty transcript shows: what this is, and prompts to try."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.widgets import label, set_kind

SUGGESTIONS = (
    "Write a letter from a lighthouse keeper to the sea.",
    "Explain in simple words why the sky is blue.",
    "Write a Python function that reverses a linked list.",
)
_SENTENCE = "A small draft model proposes, the target checks: the same answer in fewer steps."
_WIDTH = 440
_PADDING = 32


class Welcome(QWidget):
    """Title, one sentence, and buttons with prompts."""

    suggestion_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        layout.addStretch(2)
        title = label("What would you like to know?", "title")
        title.setWordWrap(True)
        title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        layout.addWidget(title)
        text = label(_SENTENCE, "muted", wraps=True)
        text.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        layout.addWidget(text)
        layout.addSpacing(14)
        self.buttons: list[QPushButton] = []
        for suggestion in SUGGESTIONS:
            button = _Suggestion(suggestion)
            button.clicked.connect(lambda _checked, text=suggestion: self.suggestion_chosen.emit(text))
            self.buttons.append(button)
            row = QHBoxLayout()
            row.addStretch(1)
            row.addWidget(button, 1000)
            row.addStretch(1)
            layout.addLayout(row)
        layout.addStretch(3)


class _Suggestion(QPushButton):
    """Gives way where the window is narrow: the text then ends in an ellipsis."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        set_kind(self, "suggestion")
        self._full = text
        self.setAccessibleName(text)
        self.setMaximumWidth(_WIDTH)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Room for a few words."""
        return QSize(160, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Show what fits."""
        super().resizeEvent(event)
        room = self.width() - _PADDING
        self.setText(self.fontMetrics().elidedText(self._full, Qt.TextElideMode.ElideRight, room))
        self.setToolTip("" if self.text() == self._full else self._full)
