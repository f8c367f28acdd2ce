"""Where the user writes: Enter sends, Shift+Enter breaks the line, one button sends and stops."""

from __future__ import annotations

import math
import sys
from pathlib import Path

from PySide6.QtCore import QMimeData, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QResizeEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.chat.attachments import AttachmentRow
from app.generation import State
from app.icons import IconButton
from app.language import tr
from app.widgets import label, set_kind, set_style_property
from core.settings import SendKey

_MOST_LINES = 8
_FIELD_MARGIN = 2
_FORCE_AFTER_MS = 3000
_SPACES = 60
_HINTS: dict[SendKey, str] = {
    "enter": tr("{keys} sends  ·  Shift+Enter new line  ·  Esc stops"),
    "ctrl+enter": tr("{keys} sends  ·  Enter new line  ·  Esc stops"),
}


class Composer(QFrame):
    """The text field, attached files, and the Send button that is Stop while something is under way."""

    submitted = Signal(str, object)
    """The text and the attached `TextFile`s."""
    stop_requested = Signal()
    text_changed = Signal(str)
    files_changed = Signal(object)
    """The attached `TextFile`s."""
    attach_requested = Signal()
    files_dropped = Signal(object)
    """`Path`s that were dropped or pasted."""
    edit_last_requested = Signal()
    edit_cancelled = Signal()
    thinking_chosen = Signal(bool)
    """Whether the model is to think before it answers."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "composer")
        self.field = MessageField()
        self.field.submitted.connect(self._submit)
        self.field.focus_changed.connect(lambda on: set_style_property(self, "active", on))
        self.field.textChanged.connect(self._refresh)
        self.field.textChanged.connect(lambda: self.text_changed.emit(self.field.toPlainText()))
        self.field.files_inserted.connect(self.files_dropped)
        self.field.up_pressed.connect(self.edit_last_requested)
        self.attachments = AttachmentRow()
        self.attachments.changed.connect(self._refresh)
        self.attachments.changed.connect(lambda: self.files_changed.emit(self.attachments.files))
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
        self.attach = IconButton("attach", tr("Attach a text file (Ctrl+O); files can be dropped on the window too"))
        self.attach.clicked.connect(self.attach_requested)
        self.thinking = QPushButton(tr("Thinking"))
        set_kind(self.thinking, "scope")
        self.thinking.setCheckable(True)
        self.thinking.setAccessibleName(tr("Thinking before the answer"))
        self.thinking.setToolTip(tr("Whether the model thinks before it answers in this chat (Ctrl+Shift+H)"))
        self.thinking.clicked.connect(self.thinking_chosen)
        self.thinking.hide()
        self._editing = self._make_editing()
        self._lay_out()
        self.set_send_key("enter")

    def set_send_key(self, key: SendKey) -> None:
        """Which key sends the message; the other one begins a new line."""
        self.field.send_key = key
        control = "Command" if sys.platform == "darwin" else "Ctrl"
        self._send_keys = f"{control}+Enter" if key == "ctrl+enter" else "Enter"
        self._keys = _HINTS[key].format(keys=self._send_keys)
        self._fit_hint()
        self._refresh()

    def _make_editing(self) -> QFrame:
        """The line that says that a message is edited."""
        line = QFrame()
        layout = QHBoxLayout(line)
        layout.setContentsMargins(_FIELD_MARGIN, 0, 0, 0)
        layout.addWidget(label(tr("Editing your message"), "strong"), 1)
        self.cancel_edit = QPushButton(tr("Cancel"))
        set_kind(self.cancel_edit, "quiet")
        self.cancel_edit.setToolTip(tr("Leave the message as it is (Esc)"))
        self.cancel_edit.clicked.connect(self.edit_cancelled)
        layout.addWidget(self.cancel_edit)
        line.hide()
        return line

    def _lay_out(self) -> None:
        self._hint = label("", "muted")
        self._hint.setIndent(_FIELD_MARGIN)
        below = QHBoxLayout()
        below.setSpacing(12)
        below.addWidget(self._hint, 1)
        below.addStretch(0)
        for button in (self.thinking, self.attach, self.button):
            below.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 12, 10)
        layout.setSpacing(4)
        for widget in (self._editing, self.attachments, self.field):
            layout.addWidget(widget)
        layout.addLayout(below)

    def show_thinking(self, on: bool | None) -> None:
        """Show whether the model thinks before it answers; None where there is no choice."""
        self.thinking.setVisible(on is not None)
        self.thinking.setChecked(bool(on))
        self._fit_hint()

    def toggle_thinking(self) -> None:
        """Have the model think before it answers, or not any more, where there is a choice."""
        if not self.thinking.isHidden():
            self.thinking.click()

    @property
    def is_editing(self) -> bool:
        """Whether a message is being edited."""
        return self._editing.isVisibleTo(self)

    def set_editing(self, on: bool) -> None:
        """Say that a message is being edited, or not any more."""
        self._editing.setVisible(on)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The hint is left out where it would be cut off."""
        super().resizeEvent(event)
        self._fit_hint()

    def _fit_hint(self) -> None:
        needed = self.fontMetrics().horizontalAdvance(self._keys) + self.attach.sizeHint().width()
        if not self.thinking.isHidden():
            needed += self.thinking.sizeHint().width()
        self._hint.setText(self._keys if self.width() > needed + self.button.sizeHint().width() + _SPACES else "")

    def set_state(self, state: State, accepts_message: bool) -> None:
        """Follow the chat's state. What takes no message can be stopped."""
        was_stopping = self._state is State.STOPPING
        self._state = state
        self._accepts = accepts_message
        if state is not State.STOPPING:
            self._force.stop()
        elif not was_stopping:
            self._force.start()
        self._refresh()

    def set_text(self, text: str) -> None:
        """Put text into the field, the cursor behind it."""
        if text != self.field.toPlainText():
            self.field.setPlainText(text)
            self.field.moveCursor(QTextCursor.MoveOperation.End)

    def _on_button(self) -> None:
        if self._offers_stop():
            self.stop_requested.emit()
        else:
            self._submit()

    def _offers_stop(self) -> bool:
        """While the pair loads and no message waits for it, the button is for sending one."""
        return not self._accepts

    def _submit(self) -> None:
        text, files = self.field.toPlainText(), self.attachments.files
        if self._accepts and self._has_content():
            self.field.clear()
            self.attachments.set_files(())
            self.submitted.emit(text, files)

    def _has_content(self) -> bool:
        return bool(self.field.toPlainText().strip() or self.attachments.files)

    def _refresh(self) -> None:
        stopping = self._state is State.STOPPING
        if self._offers_stop():
            forced = stopping and not self._force.isActive()
            if forced:
                text, name = tr("Force stop"), tr("Force stop the answer")
            elif stopping:
                text, name = tr("Stopping"), tr("Stopping the answer")
            else:
                text, name = tr("Stop"), tr("Stop the answer")
            enabled = forced or not stopping
            tip, kind = tr("Stop (Esc)"), "stop"
        else:
            text, kind = tr("Send"), "primary"
            enabled = self._has_content()
            name, tip = tr("Send the message"), tr("Send ({keys})").format(keys=self._send_keys)
        self.button.setText(text)
        self.button.setEnabled(enabled)
        self.button.setAccessibleName(name)
        self.button.setToolTip(tip)
        set_style_property(self.button, "kind", kind)


class MessageField(QPlainTextEdit):
    """A plain text field of one to eight lines."""

    submitted = Signal()
    up_pressed = Signal()
    """The arrow, in an empty field."""
    files_inserted = Signal(object)
    """`Path`s."""
    focus_changed = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.send_key: SendKey = "enter"
        self.setAccessibleName(tr("Message"))
        self.setPlaceholderText(tr("Ask anything"))
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
        if event.key() == Qt.Key.Key_Up and not composing and not self.toPlainText():
            self.up_pressed.emit()
        elif not enter:
            super().keyPressEvent(event)
        elif composing:
            return
        elif control if self.send_key == "ctrl+enter" else not shift:
            self.submitted.emit()
        else:
            self.textCursor().insertBlock()
            self.ensureCursorVisible()

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802
        """Files are attached, text is inserted."""
        if paths := files_in(source):
            self.files_inserted.emit(paths)
        else:
            super().insertFromMimeData(source)

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


def files_in(data: QMimeData) -> tuple[Path, ...]:
    """The files of this disk that are dropped or pasted."""
    return tuple(Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile())
