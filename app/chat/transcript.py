"""The conversation: messages in one column that follows its end only while the reader is there.

A saved chat is built from its end up, as far as the reader looks; what is built above, or changes its height there,
does not move what is being read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.chat.answer import AnswerView
from app.chat.bubble import Bubble
from app.chat.code import CodeView
from app.chat.entry import Entry
from app.chat.message_bar import MessageBars
from app.chat.place import Place
from app.chat.welcome import Welcome
from app.language import tr
from app.theme import BODY_PX, COLUMN_WIDTH, scaled
from app.widgets import height_of, set_kind

_NEAR_END_PX = 2 * BODY_PX * 2
_SIDE = 24
_JUMP_GAP = 12
_AHEAD = 1.5
"""So many heights of the view above it are built before they come into sight."""
_SLICE_S = 0.012

Message = AnswerView | Bubble


class Transcript(QScrollArea):
    """Messages from top to bottom. Nothing above what the reader sees moves it while text streams in."""

    suggestion_chosen = Signal(str)
    """A prompt of the empty transcript was clicked."""
    changed = Signal()
    """Something was added, or changed what it shows."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Conversation"))
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._at_end = True
        self._place = Place(None, None, 0)
        self._messages: list[Message] = []
        self._answer: AnswerView | None = None
        self._token_colors = False
        self._unbuilt: list[Entry] = []
        self.bars = MessageBars(self)
        self._more = QTimer(self)
        self._more.setInterval(0)
        self._more.timeout.connect(self._build_more)
        self._builds_all = False
        self._make_content()
        self.jump = QPushButton(tr("Jump to latest"), self)
        set_kind(self.jump, "jump")
        self.jump.setToolTip(tr("Jump to latest (Ctrl+J)"))
        self.jump.clicked.connect(self.scroll_to_end)
        self.jump.hide()
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._on_scrolled)
        bar.rangeChanged.connect(self._on_range)

    @property
    def answer(self) -> AnswerView | None:
        """The latest answer."""
        return self._answer

    @property
    def messages(self) -> list[Message]:
        """The messages that are built, at least in part, from top to bottom."""
        return list(self._messages)

    # ----------------------------------------------------------------- messages

    def show(self, entries: Sequence[Entry] | None = None) -> None:
        """Show a saved chat in place of what is shown, at its end. Without entries: the widget itself, as in Qt."""
        if entries is None:
            super().show()
            return
        self.clear()
        if entries:
            self._welcome.hide()
            self._unbuilt = list(entries)
            self._build_more()
            self.scroll_to_end()

    def add_user_message(self, text: str, message_id: int | None = None) -> None:
        """Show what the user asked, and go to it."""
        self._welcome.hide()
        self._add(self._bubble(text, message_id), len(self._messages))
        self._settle()
        self.scroll_to_end()
        self._build_more()

    def begin_answer(self) -> AnswerView:
        """Add an answer that is waited for."""
        self._welcome.hide()
        self._answer = AnswerView()
        self._add(self._answer, len(self._messages))
        self._settle()
        return self._answer

    def end_answer(self, figures: str, problem: str = "", message_id: int | None = None) -> None:
        """The latest answer has ended."""
        if self._answer is not None:
            if message_id is not None:
                self._answer.message_id = message_id
                self._answer.add_bar(self.bars.make(message_id))
            self._answer.finish(figures, problem)

    def clear(self) -> None:
        """Back to the empty transcript."""
        self._answer = None
        self._unbuilt.clear()
        self._messages.clear()
        self._place = Place(None, None, 0)
        self._more.stop()
        while item := self._column.takeAt(0):
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        self._welcome.show()
        self._at_end = True
        self.changed.emit()

    def toggle_token_colors(self) -> None:
        """Show the tokens of answers by where they came from, where that is known; or the formatted text again."""
        self._token_colors = not self._token_colors
        for message in self._messages:
            if isinstance(message, AnswerView):
                message.color_tokens(self._token_colors)

    def _add(self, message: Message, index: int) -> None:
        message.resize(self._column.geometry().width(), 0)
        if isinstance(message, AnswerView):
            message.grown.connect(self._settle)
            message.color_tokens(self._token_colors)
        self._messages.insert(index, message)
        self._column.insertWidget(index, message)
        message.show()  # else with the next events, and counts for nothing until then

    # -------------------------------------------------------------- building up

    def build_all(self) -> None:
        """Build everything, in slices of time."""
        self._builds_all = True
        self._build_more()

    @property
    def is_complete(self) -> bool:
        """Whether everything is built."""
        return not self._unbuilt and self._gap() is None

    def _gap(self) -> Message | None:
        """The last message of which pieces are still to be built."""
        return next((message for message in reversed(self._messages) if message.is_waiting), None)

    def _build_more(self) -> None:
        """Build upwards until enough stands above the view, or the time is over."""
        end_s = time.perf_counter() + _SLICE_S
        while self._wants_more():
            self._build_one()
            self._settle()
            if time.perf_counter() > end_s:
                self._more.start()
                break
        else:
            self._more.stop()
            self._builds_all = False

    def _wants_more(self) -> bool:
        if self.is_complete:
            return False
        if self._builds_all:
            return True
        gap = self._gap()
        top = gap.mapTo(self._content, gap.rect().topLeft()).y() if gap is not None else 0
        shown_from = self.verticalScrollBar().maximum() if self._at_end else self.verticalScrollBar().value()
        return top > shown_from - _AHEAD * self.viewport().height()

    def _build_one(self) -> None:
        gap = self._gap()
        if gap is not None:
            gap.build_last()
            return
        entry = self._unbuilt.pop()
        if entry.role == "user":
            self._add(self._bubble(entry.text, entry.message_id), 0)
            return
        answer = AnswerView(entry)
        if entry.message_id is not None:
            answer.add_bar(self.bars.make(entry.message_id))
        if self._answer is None:
            self._answer = answer
        self._add(answer, 0)

    def _bubble(self, text: str, message_id: int | None) -> Bubble:
        bubble = Bubble(text, message_id)
        if message_id is not None:
            bubble.add_bar(self.bars.make(message_id))
        return bubble

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
        self._place_column()
        self._place_jump()
        self._more.start()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Text may have another size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._place_column()

    def _place_column(self) -> None:
        side = max(_SIDE, (self.viewport().width() - scaled(COLUMN_WIDTH)) // 2)
        self._outer.setContentsMargins(side, 24, side, 24)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Headers of code move with the content's layout."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._stick_headers()
        return super().eventFilter(watched, event)

    def _settle(self) -> None:
        """Lay out now. Left to Qt it takes several rounds of events, and the view shows what lies between."""
        self._column.invalidate()  # Qt tells only the outermost layout of what has changed
        self._outer.invalidate()
        width, least = self.viewport().width(), self.viewport().height()
        self._content.resize(width, max(height_of(self._outer, width), least))
        self._outer.activate()
        self._keep_place()
        self.changed.emit()

    def _place_jump(self) -> None:
        self.jump.adjustSize()
        self.jump.move((self.width() - self.jump.width()) // 2, self.height() - self.jump.height() - _JUMP_GAP)
        self.jump.raise_()

    # --------------------------------------------------------------- scrolling

    def scroll_to_end(self) -> None:
        """Follow the end from here on."""
        self._at_end = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self.jump.hide()

    def show_range(self, top: int, bottom: int) -> None:
        """Scroll as little as needed to see this range of the content, with some room around it."""
        bar, height = self.verticalScrollBar(), self.viewport().height()
        room = min(height // 4, 120)
        if top - room < bar.value():
            bar.setValue(top - room)
        elif bottom + room > bar.value() + height:
            bar.setValue(bottom + room - height)

    @property
    def content(self) -> QWidget:
        """The widget that scrolls."""
        return self._content

    def _on_scrolled(self, value: int) -> None:
        self._at_end = value >= self.verticalScrollBar().maximum() - _NEAR_END_PX
        self._place = Place.at_top_of(self.viewport(), self._messages)
        self._show_jump()
        self._stick_headers()
        if self._wants_more():
            self._more.start()

    def _on_range(self, _least: int, _greatest: int) -> None:
        self._keep_place()
        self._show_jump()
        self._stick_headers()

    def _keep_place(self) -> None:
        bar = self.verticalScrollBar()
        if not self._messages:
            bar.setValue(0)  # the welcome is read from its beginning
        elif self._at_end:
            bar.setValue(bar.maximum())
        elif moved := self._place.moved(self.viewport()):
            bar.setValue(bar.value() + moved)

    def _show_jump(self) -> None:
        away = not self._at_end and bool(self._messages)
        self.jump.setVisible(away)
        if away:
            self._place_jump()

    def _stick_headers(self) -> None:
        for message in self._messages:
            for view in message.views:
                if isinstance(view, CodeView):
                    view.stick(-view.mapTo(self.viewport(), view.rect().topLeft()).y())
