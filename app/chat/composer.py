"""Where the user writes: Enter sends, Shift+Enter breaks the line, one button sends and stops."""

from __future__ import annotations

import math
import sys

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.generation import State
from app.widgets import ElidedLabel, set_kind, set_style_property
from core.settings import SendKey

_MOST_LINES = 8
_FIELD_MARGIN = 2
_FORCE_AFTER_MS = 3000
_HINTS: dict[SendKey, str] = {
    "enter": "Enter sends  ·  Shift+Enter new line  ·  Esc stops",
    "ctrl+enter": "Ctrl+Enter sends  ·  Enter new line  ·  Esc stops",
}


class Composer(QFrame):
    """The text field, its hint, and the Send button that is Stop while something is under way."""

    submitted = Signal(str)
    stop_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "composer")
        self.field = MessageField()
        self.field.submitted.connect(self._submit)
        self.field.focus_changed.connect(lambda on: set_style_property(self, "active", on))
        self.field.textChanged.connect(self._refresh)
        self.setFocusProxy(self.field)
        self._state = State.IDLE
        self._accepts = True
        self.button = QPushButton()
        self.button.setMinimumWidth(84)
        self.button.clicked.connect(self._on_button)
        # An engine that does not stop at once may be ended by force, but not by a double click.
        self._force = QTimer(self)
        self._force.setSingleShot(True)
        self._force.setInterval(_FORCE_AFTER_MS)
        self._force.timeout.connect(self._refresh)
        texts = QVBoxLayout()
        texts.setSpacing(4)
        texts.addWidget(self.field)
        self._hint = ElidedLabel("muted")
        self._hint.setIndent(_FIELD_MARGIN)
        texts.addWidget(self._hint)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(18, 12, 12, 10)
        layout.setSpacing(12)
        layout.addLayout(texts, 1)
        layout.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        self.set_send_key("enter")

    def set_send_key(self, key: SendKey) -> None:
        """Which key sends the message; the other one begins a new line."""
        self.field.send_key = key
        keys = _HINTS[key]
        self._hint.set_full_text(keys.replace("Ctrl+", "Command+") if sys.platform == "darwin" else keys)
        self._refresh()

    def set_state(self, state: State, accepts_message: bool) -> None:
        """Follow the chat's state. What takes no message can be stopped."""
        self._state = state
        self._accepts = accepts_message
        if state is State.STOPPING:
            self._force.start()
        else:
            self._force.stop()
        self._refresh()

    def set_text(self, text: str) -> None:
        """Put text into the field."""
        self.field.setPlainText(text)

    def _on_button(self) -> None:
        if self._offers_stop():
            self.stop_requested.emit()
        else:
            self._submit()

    def _offers_stop(self) -> bool:
        """While the pair loads and no message waits for it, the button is for sending one."""
        return not self._accepts

    def _submit(self) -> None:
        text = self.field.toPlainText()
        if self._accepts and text.strip():
            self.field.clear()
            self.submitted.emit(text)

    def _refresh(self) -> None:
        stopping = self._state is State.STOPPING
        if self._offers_stop():
            forced = stopping and not self._force.isActive()
            text, kind = ("Force stop" if forced else "Stopping" if stopping else "Stop"), "stop"
            enabled = forced or not stopping
            name, tip = f"{text} the answer", "Stop (Esc)"
        else:
            text, kind = "Send", "primary"
            enabled = bool(self.field.toPlainText().strip())
            name, tip = "Send the message", f"Send ({self._hint.full_text().partition(' sends')[0]})"
        self.button.setText(text)
        self.button.setEnabled(enabled)
        self.button.setAccessibleName(name)
        self.button.setToolTip(tip)
        set_style_property(self.button, "kind", kind)


class MessageField(QPlainTextEdit):
    """A plain text field of one to eight lines."""

    submitted = Signal()
    focus_changed = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.send_key: SendKey = "enter"
        self.setAccessibleName("Message")
        self.setPlaceholderText("Ask anything")
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(_FIELD_MARGIN)
        self.document().documentLayout().documentSizeChanged.connect(lambda _size: self._fit())
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """The send key sends, Enter otherwise breaks the line; while an input method composes it is the method's."""
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        composing = bool(self.textCursor().block().layout().preeditAreaText())
        control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if not enter:
            super().keyPressEvent(event)
        elif composing:
            return
        elif control if self.send_key == "ctrl+enter" else not shift:
            self.submitted.emit()
        else:
            self.textCursor().insertBlock()
            self.ensureCursorVisible()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Tell the frame."""
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Tell the frame."""
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def _fit(self) -> None:
        spacing, layout = self.fontMetrics().lineSpacing(), self.document().documentLayout()
        block, needed = self.document().begin(), 0.0
        # By geometry: lines with letters of another font may be taller.
        while block.isValid() and needed < _MOST_LINES * spacing:
            needed += layout.blockBoundingRect(block).height()
            block = block.next()
        height = math.ceil(min(max(needed, spacing), _MOST_LINES * spacing)) + 8
        if height != self.height():
            self.setFixedHeight(height)
