"""Find in the open chat: a bar above the transcript, and the marks of what it finds.

Hits are looked for in what is built; while the bar is open the transcript builds the rest, in slices of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QKeyEvent, QTextCursor, QTextDocument
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QTextBrowser,
    QTextEdit,
    QWidget,
)

from app.chat.answer import AnswerView
from app.chat.code import CodeView
from app.chat.thinking import ThinkingView
from app.chat.transcript import Transcript
from app.icons import IconButton
from app.language import tr
from app.theme import colors, scaled
from app.widgets import label, set_kind

MOST_HITS = 1000
"""In one view."""
_WIDTH, _COUNT_WIDTH = 200, 90
_MARGIN = 10
_REFRESH_MS = 150

_UNSPACED = "\u0e00"
"""From this character on there are scripts without spaces between words."""

TextView = QTextBrowser | QPlainTextEdit


@dataclass(frozen=True)
class Wanted:
    """What is looked for."""

    words: tuple[str, ...] = ()
    """Any of these."""
    whole: bool = False
    """Only whole words, where the script has spaces between them."""


@dataclass
class Searched:
    """What was found in a view, and in which state of it."""

    view: TextView
    thinking: ThinkingView | None
    """The fold that it lies in."""
    wanted: Wanted
    revision: int
    hits: list[QTextCursor]


class FindBar(QFrame):
    """Ctrl+F: what to look for, how often it is there, and the way from one to the next."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(transcript)
        set_kind(self, "find")
        self._transcript = transcript
        self._searched: list[Searched] = []
        self._current: tuple[TextView, int] | None = None
        self._wanted = Wanted()
        self._wanted_id: int | None = None  # the message to go to, once it is built
        self._refresh = QTimer(self)
        self._refresh.setSingleShot(True)
        self._refresh.setInterval(_REFRESH_MS)
        self._refresh.timeout.connect(self._search)
        self.field = _Field()
        self.field.textChanged.connect(self._on_query)
        self.field.next_asked.connect(self.go_to_next)
        self.field.previous_asked.connect(self.go_to_previous)
        self.field.close_asked.connect(self.close_bar)
        self.count = label("", "muted")
        previous = IconButton("up", tr("Previous (Shift+Enter)"))
        previous.clicked.connect(self.go_to_previous)
        following = IconButton("down", tr("Next (Enter)"))
        following.clicked.connect(self.go_to_next)
        close = self.close_button = IconButton("close", tr("Close (Esc)"))
        close.clicked.connect(self.close_bar)
        row = QHBoxLayout()
        row.setSpacing(2)
        for widget in (self.count, previous, following, close):
            row.addWidget(widget)
        layout = self._layout = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        layout.setContentsMargins(8, 6, 8, 6)
        layout.addWidget(self.field)
        layout.addLayout(row)
        transcript.changed.connect(self._on_changed)
        transcript.installEventFilter(self)
        self.hide()

    # ------------------------------------------------------------------ open

    def open_bar(self) -> None:
        """Show the bar and take the keyboard."""
        self.show()
        self._settle()
        self.raise_()
        self.field.setFocus()
        self.field.selectAll()
        if self.field.text():
            self._on_query()

    def show_found(self, message_id: int, words: tuple[str, ...]) -> None:
        """Show the bar with words that another search found in a message, and go there once it is built.

        Each of the words is marked, wherever it stands. The keyboard stays where it is.
        """
        self.show()
        self._settle()
        self.raise_()
        self.field.blockSignals(True)
        self.field.setText(" ".join(words))
        self.field.blockSignals(False)
        self._wanted, self._current, self._wanted_id = Wanted(words, whole=True), None, message_id
        self._search()
        self._transcript.build_all()

    def close_bar(self) -> None:
        """Hide the bar and its marks."""
        self._refresh.stop()
        self._wanted_id = None
        self.hide()
        self._search()
        self._transcript.setFocus()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Stay in the corner."""
        if event.type() == QEvent.Type.Resize:
            self._settle()
        return super().eventFilter(watched, event)

    def _settle(self) -> None:
        """One row where there is room for it, else two."""
        self.field.setFixedWidth(scaled(_WIDTH))
        room = self._transcript.viewport().width() - 2 * _MARGIN
        needed = scaled(_WIDTH) + scaled(_COUNT_WIDTH) + 3 * self.close_button.sizeHint().width() + 40
        tight = needed > room
        self._layout.setDirection(QBoxLayout.Direction.TopToBottom if tight else QBoxLayout.Direction.LeftToRight)
        self.count.setMinimumWidth(0 if tight else scaled(_COUNT_WIDTH))
        if tight:
            self.field.setFixedWidth(max(min(scaled(_WIDTH), room - 16), 1))
        self.adjustSize()
        self.move(self._transcript.viewport().width() - self.width() - _MARGIN, _MARGIN)

    # ---------------------------------------------------------------- search

    @property
    def total(self) -> int:
        """Hits in what is built."""
        return sum(len(searched.hits) for searched in self._searched)

    def _on_query(self) -> None:
        self._wanted = Wanted((self.field.text(),) if self.field.text() else ())
        self._current = self._wanted_id = None
        self._search()
        self._go_to(self._first_in_sight())
        if self.field.text():
            self._transcript.build_all()

    def _on_changed(self) -> None:
        if self.isVisible() and not self._refresh.isActive():
            self._refresh.start()

    def _search(self) -> None:
        wanted = self._wanted if not self.isHidden() else Wanted()
        known = {searched.view: searched for searched in self._searched}
        self._searched = [
            self._search_in(view, thinking, wanted, known.get(view)) for view, thinking in _views(self._transcript)
        ]
        if self._current is not None and self._current not in self._places():
            self._current = None
        self._mark()
        if self._wanted_id is not None:
            self._go_to_wanted()

    def _search_in(
        self, view: TextView, thinking: ThinkingView | None, wanted: Wanted, known: Searched | None
    ) -> Searched:
        if wanted.words and thinking is not None:
            thinking.fill()
        revision = view.document().revision()
        if known is not None and (known.wanted, known.revision) == (wanted, revision):
            return known
        return Searched(view, thinking, wanted, revision, _hits(view.document(), wanted))

    def _go_to_wanted(self) -> None:
        """Go to the first hit in the wanted message, or to its beginning, once it is built."""
        message = next((m for m in self._transcript.messages if m.message_id == self._wanted_id), None)
        if message is None or message.is_waiting:
            if self._transcript.is_complete:
                self._wanted_id = None
            return
        self._wanted_id = None
        place = next((p for p in self._places() if message.isAncestorOf(p[0]) and self._is_text(p[0])), None)
        if place is not None:
            self._go_to(place)
        else:
            top = message.mapTo(self._transcript.content, QPoint(0, 0)).y()
            self._transcript.show_range(top, top)

    def _is_text(self, view: TextView) -> bool:
        """Whether it is no thinking: the search that found the message did not look there."""
        return any(searched.view is view and searched.thinking is None for searched in self._searched)

    def _places(self) -> list[tuple[TextView, int]]:
        return [(searched.view, index) for searched in self._searched for index in range(len(searched.hits))]

    def _mark(self) -> None:
        for searched in self._searched:
            chosen = self._current[1] if self._current is not None and self._current[0] is searched.view else None
            _mark(searched, chosen)
        places = self._places()
        more = "" if self._transcript.is_complete else "…"
        if not self.field.text():
            self.count.setText("")
        elif self._current is not None:
            place = places.index(self._current) + 1
            self.count.setText(tr("{place} of {hits}{more}").format(place=place, hits=len(places), more=more))
        elif places:
            self.count.setText(tr("{hits}{more} found").format(hits=len(places), more=more))
        else:
            self.count.setText(tr("Nothing found{more}").format(more=more))
        self.count.setAccessibleName(self.count.text())

    # ----------------------------------------------------------------- going

    def go_to_next(self) -> None:
        """The next hit, or the first after the last."""
        self._step(1)

    def go_to_previous(self) -> None:
        """The hit before, or the last before the first."""
        self._step(-1)

    def _step(self, by: int) -> None:
        if self._refresh.isActive():  # what was found may be gone
            self._refresh.stop()
            self._search()
        places = self._places()
        if not places:
            return
        if self._current is None:
            self._go_to(self._first_in_sight())
        else:
            self._go_to(places[(places.index(self._current) + by) % len(places)])

    def _first_in_sight(self) -> tuple[TextView, int] | None:
        """The first hit at or below the upper edge of the view, else the last one above it."""
        places = self._places()
        top = self._transcript.verticalScrollBar().value()
        return next((place for place in places if self._range(*place)[1] >= top), places[-1] if places else None)

    def _go_to(self, place: tuple[TextView, int] | None) -> None:
        self._current = place
        self._mark()
        if place is None:
            return
        searched = next(searched for searched in self._searched if searched.view is place[0])
        if searched.thinking is not None:
            searched.thinking.button.setChecked(True)
        if isinstance(searched.view, QPlainTextEdit):  # it scrolls within itself
            cursor = QTextCursor(searched.hits[place[1]])
            cursor.clearSelection()
            searched.view.setTextCursor(cursor)
            searched.view.ensureCursorVisible()
        self._transcript.show_range(*self._range(*place))

    def _range(self, view: TextView, index: int) -> tuple[int, int]:
        """Top and bottom of a hit in the transcript's content."""
        searched = next(searched for searched in self._searched if searched.view is view)
        shown: QWidget = view
        if searched.thinking is not None and view.isHidden():
            shown, rect = searched.thinking, searched.thinking.rect()
        else:
            rect = view.cursorRect(searched.hits[index])
        top = shown.mapTo(self._transcript.content, QPoint(0, rect.top())).y()
        return top, top + rect.height()


class _Field(QLineEdit):
    next_asked = Signal()
    previous_asked = Signal()
    close_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText(tr("Find in this chat"))
        self.setAccessibleName(tr("Find in this chat"))

    def event(self, event: QEvent) -> bool:
        """Esc is for the bar, not for the window's commands."""
        overrides = event.type() == QEvent.Type.ShortcutOverride
        if overrides and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter, Shift+Enter and Esc."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            (self.previous_asked if back else self.next_asked).emit()
        elif event.key() == Qt.Key.Key_Escape:
            self.close_asked.emit()
        else:
            super().keyPressEvent(event)


def _views(transcript: Transcript) -> list[tuple[TextView, ThinkingView | None]]:
    """The text views in sight or folded away, from top to bottom, with the fold."""
    result: list[tuple[TextView, ThinkingView | None]] = []
    for message in transcript.messages:
        if isinstance(message, AnswerView):
            if message.thinking is not None:
                result.append((message.thinking.box, message.thinking))
            if message.tokens is not None and not message.tokens.isHidden():
                result.append((message.tokens.text, None))
                continue
        result += [(view.view if isinstance(view, CodeView) else view, None) for view in message.views]
    return result


def _hits(document: QTextDocument, wanted: Wanted) -> list[QTextCursor]:
    hits: list[QTextCursor] = []
    for word in wanted.words:
        whole = wanted.whole and max(word) < _UNSPACED
        flags = QTextDocument.FindFlag.FindWholeWords if whole else QTextDocument.FindFlag(0)
        cursor = QTextCursor(document)
        while len(hits) < MOST_HITS:
            cursor = document.find(word, cursor, flags)
            if cursor.isNull():
                break
            hits.append(cursor)
    return sorted(hits, key=lambda hit: hit.selectionStart())


def _mark(searched: Searched, chosen: int | None) -> None:
    if not searched.hits and not searched.view.extraSelections():
        return
    selections = []
    for index, hit in enumerate(searched.hits):
        selection = QTextEdit.ExtraSelection()
        selection.cursor = hit
        form = selection.format
        form.setBackground(QColor(colors().accent_fill if index == chosen else colors().selection))
        if index == chosen:
            form.setForeground(QColor(colors().on_fill))
        selection.format = form
        selections.append(selection)
    searched.view.setExtraSelections(selections)
