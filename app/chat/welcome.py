"""What an empty transcript shows: what this is, and prompts to try."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from app.widgets import label, set_kind

SUGGESTIONS = (
    "Write a letter from a lighthouse keeper to the sea.",
    "Explain in simple words why the sky is blue.",
    "Write a Python function that reverses a linked list.",
)
_SENTENCE = "A small draft model proposes, the target checks: the same answer in fewer steps."
_WIDTH = 440


class Welcome(QWidget):
    """Title, one sentence, and buttons with prompts."""

    suggestion_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        layout.addStretch(2)
        title = label("What would you like to know?", "title")
        title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        layout.addWidget(title)
        text = label("A small draft model proposes, the target checks: the same answer in fewer steps.", "muted", True)
        text.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        layout.addWidget(text)
        layout.addSpacing(14)
        self.buttons: list[QPushButton] = []
        for suggestion in SUGGESTIONS:
            button = QPushButton(suggestion)
            set_kind(button, "suggestion")
            button.setFixedWidth(_WIDTH)
            button.clicked.connect(lambda _checked, text=suggestion: self.suggestion_chosen.emit(text))
            self.buttons.append(button)
            layout.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(3)
