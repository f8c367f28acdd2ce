"""The line under an answer: its figures, what cut it off, and how to copy it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.chat.copy_button import CopyButton
from app.language import tr
from app.widgets import label, set_kind

if TYPE_CHECKING:
    from app.chat.answer import AnswerView

_ABOVE_PX = 4


class AnswerFooter(QWidget):
    """Shown once the answer has ended."""

    def __init__(self, answer: AnswerView) -> None:
        super().__init__(answer)
        self.figures = FiguresLine()
        self.problem = label("", "bad", wraps=True)
        self.copy_markdown = CopyButton("copy", tr("Copy this answer as Markdown"))
        self.copy_markdown.clicked.connect(answer.copy_markdown)
        self.copy_plain = CopyButton("text", tr("Copy this answer as plain text, without marks"))
        self.copy_plain.clicked.connect(answer.copy_plain)
        self.buttons = QHBoxLayout()
        self.buttons.setSpacing(2)
        self.buttons.addWidget(self.copy_markdown)
        self.buttons.addWidget(self.copy_plain)
        self.buttons.addStretch()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, _ABOVE_PX, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self.figures)
        layout.addWidget(self.problem)
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
        self.setAccessibleName(tr("Figures of this answer"))
        self.setToolTip(tr("Show the figures of this answer in the statistics"))
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
