"""A banner for a problem: the sentence, what to do, the details on demand. Never modal."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.flow_layout import FlowLayout
from app.language import tr
from app.widgets import label, set_kind
from core.errors import Problem

_MOST_DETAIL_LINES = 7


class ProblemNotice(QFrame):
    """Shows the latest problem until it is dismissed or solved."""

    retry_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "notice")
        self._problem: Problem | None = None
        self.sentence = label("", "strong", wraps=True)
        self.hint = label("", "muted", wraps=True)
        self.detail = QPlainTextEdit()
        set_kind(self.detail, "detail")
        self.detail.setReadOnly(True)
        self.detail.setTabChangesFocus(True)
        self.detail.setAccessibleName(tr("Details of the problem"))
        self.retry = self._button(tr("Try again"), "Ctrl+R")
        self.retry.clicked.connect(self.retry_requested)
        self.details = self._button(tr("Details"), "Ctrl+D")
        self.details.setCheckable(True)
        self.details.toggled.connect(self.detail.setVisible)
        self.copy = self._button(tr("Copy report"), "Ctrl+Shift+R")
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.report()))
        self.dismiss = self._button(tr("Dismiss"), "Ctrl+Shift+D")
        self.dismiss.clicked.connect(self.hide)
        buttons = FlowLayout()
        for button in (self.retry, self.details, self.copy, self.dismiss):
            buttons.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 16, 12)
        layout.setSpacing(6)
        layout.addWidget(self.sentence)
        layout.addWidget(self.hint)
        layout.addWidget(self.detail)
        layout.addLayout(buttons)
        self.hide()

    def show_problem(self, problem: Problem, can_retry: bool = True) -> None:
        """Show a problem in place of the one before."""
        self._problem = problem
        self.sentence.setText(problem.sentence)
        self.hint.setText(problem.hint)
        self.hint.setVisible(bool(problem.hint))
        self.detail.setPlainText(problem.detail)
        lines = min(max(self.detail.blockCount(), 2), _MOST_DETAIL_LINES)
        self.detail.setFixedHeight(lines * self.detail.fontMetrics().lineSpacing() + 20)
        self.details.setChecked(False)
        self.detail.hide()
        self.details.setVisible(bool(problem.detail))
        self.retry.setVisible(can_retry)
        words = tr("Problem: {sentence} {hint}")
        self.setAccessibleName(words.format(sentence=problem.sentence, hint=problem.hint))
        self.show()

    def report(self) -> str:
        """The problem as text for a bug report."""
        problem = self._problem
        if problem is None:
            return ""
        parts = (f"{problem.kind}: {problem.sentence}", problem.hint, problem.detail)
        return "\n".join(part for part in parts if part)

    @staticmethod
    def _button(text: str, key: str) -> QPushButton:
        button = QPushButton(text)
        button.setShortcut(key)
        button.setToolTip(f"{text} ({key})")
        return button
