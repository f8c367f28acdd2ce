"""The conversation: messages in one column that follows its end only while the reader is there."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from app.chat.answer import AnswerView
from app.chat.code import CodeView
from app.chat.entry import Entry
from app.chat.message_bar import MessageBars
from app.chat.prose import FittedText
from app.chat.welcome import Welcome
from app.theme import BODY_PX, COLUMN_WIDTH
from app.widgets import set_kind

_NEAR_END_PX = 2 * BODY_PX * 2
_SIDE = 24
_BUBBLE_SHARE = 0.8
_JUMP_GAP = 12


class Transcript(QScrollArea):
    """Messages from top to bottom. Nothing above what the reader sees changes its height while text streams in."""

    suggestion_chosen = Signal(str)
    """A prompt of the empty transcript was clicked."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Conversation")
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._at_end = True
        self._answer: AnswerView | None = None
        self._code_views: list[CodeView] = []
        self.bars = MessageBars(self)
        self._make_content()
        self.jump = QPushButton("Jump to latest", self)
        set_kind(self.jump, "jump")
        self.jump.setToolTip("Jump to latest (Ctrl+J)")
        self.jump.clicked.connect(self.scroll_to_end)
        self.jump.hide()
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._on_scrolled)
        bar.rangeChanged.connect(self._on_range)

    @property
    def answer(self) -> AnswerView | None:
        """The latest answer."""
        return self._answer

    def show(self, entries: Sequence[Entry] | None = None) -> None:
        """Show these messages in place of what was shown, at their end; without any, as other widgets do."""
        super().show()
        if entries is None:
            return
        self.clear()
        for entry in entries:
            if entry.role == "user":
                self.add_user_message(entry.text, entry.message_id)
            else:
                view = self.begin_answer()
                if entry.thinking:
                    view.append_thinking(entry.thinking)
                view.append(entry.text)
                self.end_answer(entry.figures, entry.problem, entry.message_id)
        self.scroll_to_end()

    def add_user_message(self, text: str, message_id: int | None = None) -> None:
        """Show what the user asked, and go to it."""
        self._welcome.hide()
        bubble = _Bubble(text)
        if message_id is not None:
            bubble.add_bar(self.bars.make(message_id))
        self._column.addWidget(bubble)
        self._settle()
        self.scroll_to_end()

    def begin_answer(self) -> AnswerView:
        """Add an answer that is waited for."""
        self._answer = AnswerView()
        self._answer.code_added.connect(self._code_views.append)
        self._answer.grown.connect(self._settle)
        self._answer.resize(self._column.geometry().width(), 0)
        self._column.addWidget(self._answer)
        self._settle()
        return self._answer

    def end_answer(self, figures: str, problem: str = "", message_id: int | None = None) -> None:
        """The latest answer has ended."""
        if self._answer is not None:
            if message_id is not None:
                self._answer.add_bar(self.bars.make(message_id))
            self._answer.finish(figures, problem)

    def clear(self) -> None:
        """Back to the empty transcript."""
        self._answer = None
        self._code_views.clear()
        while item := self._column.takeAt(0):
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        self._welcome.show()
        self._at_end = True

    def scroll_to_end(self) -> None:
        """Follow the end from here on."""
        self._at_end = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self.jump.hide()

    # ------------------------------------------------------------------ layout

    def _make_content(self) -> None:
        content = self._content = QWidget()
        set_kind(content, "transcript")
        self._welcome = Welcome()
        self._welcome.suggestion_chosen.connect(self.suggestion_chosen)
        self._column = QVBoxLayout()
        self._column.setSpacing(22)
        self._outer = QVBoxLayout(content)
        self._outer.addWidget(self._welcome, 1)
        self._outer.addLayout(self._column)
        self._outer.addStretch()
        self.setWidget(content)
        content.installEventFilter(self)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Centre the column and keep the button above the lower edge."""
        super().resizeEvent(event)
        side = max(_SIDE, (self.viewport().width() - COLUMN_WIDTH) // 2)
        self._outer.setContentsMargins(side, 24, side, 24)
        self._place_jump()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Headers of code move with the content's layout."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._stick_headers()
        return super().eventFilter(watched, event)

    def _settle(self) -> None:
        """Lay out now. Left to Qt it takes several rounds of events, and the view shows what lies between."""
        self._outer.activate()
        width, least = self.viewport().width(), self.viewport().height()
        self._content.resize(width, max(self._outer.totalMinimumHeightForWidth(width), least))

    def _place_jump(self) -> None:
        self.jump.adjustSize()
        self.jump.move((self.width() - self.jump.width()) // 2, self.height() - self.jump.height() - _JUMP_GAP)
        self.jump.raise_()

    # --------------------------------------------------------------- scrolling

    def _on_scrolled(self, value: int) -> None:
        self._at_end = value >= self.verticalScrollBar().maximum() - _NEAR_END_PX
        self._show_jump()
        self._stick_headers()

    def _on_range(self, _least: int, greatest: int) -> None:
        if self._at_end:
            self.verticalScrollBar().setValue(greatest)
        self._show_jump()
        self._stick_headers()

    def _show_jump(self) -> None:
        self.jump.setVisible(not self._at_end)
        if not self._at_end:
            self._place_jump()

    def _stick_headers(self) -> None:
        for code in self._code_views:
            code.stick(-code.mapTo(self.viewport(), code.rect().topLeft()).y())


class _Bubble(QWidget):
    """What the user said, on the right, as wide as it needs to be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.setAccessibleName("Your message")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        bubble = QFrame()
        set_kind(bubble, "bubble")
        self._text = FittedText()
        self._text.setAccessibleName("Your message")
        self._text.setPlainText(text)
        metrics = self._text.fontMetrics()
        self._natural_width = max(metrics.horizontalAdvance(line) for line in text.split("\n")) + 4
        self._set_width(COLUMN_WIDTH)
        inner = QHBoxLayout(bubble)
        inner.setContentsMargins(16, 10, 16, 10)
        inner.addWidget(self._text)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(bubble)
        self._rows = QVBoxLayout(self)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setSpacing(2)
        self._rows.addLayout(row)

    def add_bar(self, bar: QWidget) -> None:
        """What can be done with the message, below it."""
        self._rows.addWidget(bar, 0, Qt.AlignmentFlag.AlignRight)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """As wide as the text, up to a share of the column."""
        super().resizeEvent(event)
        self._set_width(self.width())

    def _set_width(self, column_width: int) -> None:
        width = min(int(column_width * _BUBBLE_SHARE), self._natural_width)
        if width != self._text.width():
            self._text.setFixedWidth(width)
            self._text.lay_out(width)
