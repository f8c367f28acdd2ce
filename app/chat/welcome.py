"""What an empty transcript shows: what this is, and prompts to try."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.language import tr
from app.theme import scaled
from app.widgets import height_of, label, set_kind

SUGGESTIONS = (
    tr("Write a letter from a lighthouse keeper to the sea."),
    tr("Explain in simple words why the sky is blue."),
    tr("Write a Python function that reverses a linked list."),
)
_SENTENCE = tr("A small draft model proposes, the target checks: the same answer in fewer steps.")
_WIDTH = 440
_LEAST_WIDTH = 160


class Welcome(QWidget):
    """Title, one sentence, and buttons with prompts."""

    suggestion_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        layout.addStretch(2)
        title = label(tr("What would you like to know?"), "title")
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
    """Its text goes on in the next line where the window is narrow or the text large."""

    def __init__(self, text: str) -> None:
        super().__init__()
        set_kind(self, "suggestion")
        self.setAccessibleName(text)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(14, 9, 14, 9)
        shown = label(text, "suggestion", wraps=True)
        shown.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._row.addWidget(shown)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Text may have another size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()

    def _fit(self) -> None:
        self.setMaximumWidth(scaled(_WIDTH))
        self.updateGeometry()

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """Narrower is higher."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """As the text needs."""
        return height_of(self._row, width)

    def sizeHint(self) -> QSize:  # noqa: N802
        """As wide as is pleasant to read."""
        return QSize(scaled(_WIDTH), self.heightForWidth(scaled(_WIDTH)))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Room for a few words, in one line."""
        return QSize(_LEAST_WIDTH, self._row.totalMinimumSize().height())
