"""The model's thinking before an answer: folded away, and open to watch while it streams."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.chat.lines import LineBreaker
from app.language import tr
from app.widgets import set_kind

_HEIGHT = 180


class ThinkingView(QWidget):
    """A button that opens a box of plain text; the box has one height and follows its end."""

    toggled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = tr("Thinking")
        self._source: list[str] = []
        self._unwritten: list[str] = []  # the box is filled once someone looks
        self._lines = LineBreaker()
        self.button = QPushButton()
        set_kind(self.button, "quiet")
        self.button.setCheckable(True)
        self.button.setToolTip(tr("Show or hide the thinking (Ctrl+T)"))
        self.button.toggled.connect(self._on_toggled)
        self.box = QPlainTextEdit()
        set_kind(self.box, "detail")
        self.box.setAccessibleName(tr("Thinking"))
        self.box.setReadOnly(True)
        self.box.setUndoRedoEnabled(False)
        self.box.setTabChangesFocus(True)
        self.box.setFixedHeight(_HEIGHT)
        self.box.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.button, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self.box)
        self._show_title()

    @property
    def source(self) -> str:
        """The thinking so far."""
        return "".join(self._source)

    def append(self, text: str) -> None:
        """More of the thinking."""
        self._source.append(text)
        self._unwritten.append(text)
        if self.button.isChecked():
            self.fill()

    def fill(self) -> None:
        """Write into the box what it does not hold yet."""
        if not self._unwritten:
            return
        bar = self.box.verticalScrollBar()
        follows = bar.value() == bar.maximum()
        cursor = QTextCursor(self.box.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(self._lines.broken("".join(self._unwritten)))
        self._unwritten.clear()
        if follows:
            bar.setValue(bar.maximum())

    def end(self) -> None:
        """The answer begins."""
        self._title = tr("Thoughts")
        self._show_title()

    def _show_title(self) -> None:
        self.button.setText(f"{'▾' if self.button.isChecked() else '▸'}  {self._title}")
        self.button.setAccessibleName(self._title)

    def _on_toggled(self, shown: bool) -> None:
        self._show_title()
        if shown:
            self.fill()
        self.box.setVisible(shown)
        self.box.verticalScrollBar().setValue(self.box.verticalScrollBar().maximum())
        self.toggled.emit()
