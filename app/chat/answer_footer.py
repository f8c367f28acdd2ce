"""The line under an answer: its figures, what cut it off, and how to copy it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.widgets import label, set_kind

if TYPE_CHECKING:
    from app.chat.answer import AnswerView

_COPIED_MS = 1500


class AnswerFooter(QWidget):
    """Shown once the answer has ended."""

    def __init__(self, answer: AnswerView) -> None:
        super().__init__(answer)
        self.figures = FiguresLine()
        self.problem = label("", "bad", wraps=True)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self.figures)
        texts.addWidget(self.problem)
        self.copy_markdown = CopyButton("Copy", "Copy this answer as Markdown")
        self.copy_markdown.clicked.connect(answer.copy_markdown)
        self.copy_plain = CopyButton("Copy as text", "Copy this answer as plain text, without marks")
        self.copy_plain.clicked.connect(answer.copy_plain)
        self.buttons = QHBoxLayout()
        self.buttons.setSpacing(2)
        self.buttons.addWidget(self.copy_plain, 0, Qt.AlignmentFlag.AlignTop)
        self.buttons.addWidget(self.copy_markdown, 0, Qt.AlignmentFlag.AlignTop)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(texts, 1)
        layout.addLayout(self.buttons)

    def show_end(self, figures: str, problem: str, can_copy: bool) -> None:
        """Show what is known at the end."""
        self.figures.setText(figures)
        self.figures.setVisible(bool(figures))
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self.copy_markdown.setVisible(can_copy)
        self.copy_plain.setVisible(can_copy)
        self.show()


class FiguresLine(QLabel):
    """The figures in a line or two; a click, or Enter, shows all of them in the statistics."""

    chosen = Signal()

    def __init__(self) -> None:
        super().__init__()
        set_kind(self, "figures")
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setAccessibleName("Figures of this answer")
        self.setToolTip("Show the figures of this answer in the statistics")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """A click."""
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.chosen.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter or Space."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.chosen.emit()
        else:
            super().keyPressEvent(event)


class CopyButton(QPushButton):
    """Says for a moment that it has copied."""

    def __init__(self, text: str, description: str) -> None:
        super().__init__(text)
        set_kind(self, "quiet")
        self.setAccessibleName(description)
        self.setToolTip(description)
        self._text = text
        self._copied = QTimer(self)
        self._copied.setSingleShot(True)
        self._copied.setInterval(_COPIED_MS)
        self._copied.timeout.connect(lambda: self.setText(self._text))

    def show_copied(self) -> None:
        """Something was copied."""
        self.setText("Copied")
        self._copied.start()
