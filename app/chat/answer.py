"""One answer: blocks that grow while it streams in, then its line of figures."""

from __future__ import annotations

import time
from collections import deque

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.chat.answer_footer import AnswerFooter
from app.chat.blocks import BlockSplitter, Change, FenceClosed, FenceOpened, FenceText, ProseChanged, ProseClosed
from app.chat.code import CodeView
from app.chat.entry import Entry
from app.chat.formats import PARAGRAPH_GAP_PX
from app.chat.message_bar import MessageBar
from app.chat.pieces import Code, Piece, condensed, ends_run, pieces
from app.chat.prose import ProseView
from app.chat.thinking import ThinkingView
from app.chat.tokens import TokenView
from app.language import tr
from app.widgets import height_of, label
from core.protocol import Step

FRAME_MS = 33
_COST_PER_SKIPPED_FRAME_MS = 8
_FRAME_BUDGET_S = 0.010
"""What comes faster than it can be shown is shown over several frames."""


class AnswerView(QWidget):
    """Takes text as it comes and shows it at most once a frame, less often where showing it is slow.

    Made from an `Entry` it is complete, and its pieces are built from the last one up (`build_last`).
    """

    grown = Signal()
    """After each change of what is shown."""

    def __init__(self, entry: Entry | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Answer"))
        # Never squeezed while the transcript has not made room yet: that would move what is being read.
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.message_id = entry.message_id if entry else None
        self._source: list[str] = []
        self._pending: list[str] = []
        self._splitter = BlockSplitter()
        self._changes: deque[Change] = deque()
        self._ended = False
        self._waiting: list[Piece] = []
        self._prose: ProseView | None = None
        self._code: CodeView | None = None
        self._skip = 0
        self._frame = QTimer(self)
        self._frame.setInterval(FRAME_MS)
        self._frame.timeout.connect(self._on_frame)
        self.views: list[ProseView | CodeView] = []
        """What is built, from top to bottom."""
        self.thinking: ThinkingView | None = None
        self.tokens: TokenView | None = None
        self._colors_tokens = False
        self._lay_out()
        if entry is not None:
            self._fill(entry)

    def _lay_out(self) -> None:
        self._thinking_place = QVBoxLayout()
        self._blocks = QVBoxLayout()
        self._blocks.setSpacing(PARAGRAPH_GAP_PX)
        self._status = label("", "muted")
        self._status.hide()
        self.footer = AnswerFooter(self)
        self.footer.hide()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(6)
        self._layout.addLayout(self._thinking_place)
        self._layout.addLayout(self._blocks)
        self._layout.addWidget(self._status)
        self._layout.addWidget(self.footer)

    @property
    def source(self) -> str:
        """The answer's Markdown so far."""
        return "".join(self._source)

    # --------------------------------------------------------------- while it comes

    def set_status(self, text: str) -> None:
        """What is waited for, in words; shown until the first text comes."""
        self._status.setText(text)
        self._status.setVisible(not self._source and self.thinking is None and not self._ended)

    def append_thinking(self, text: str) -> None:
        """The next piece of what the model thinks before it answers."""
        if self.thinking is None:
            self.thinking = ThinkingView()
            self.thinking.toggled.connect(self._grow)
            self._thinking_place.addWidget(self.thinking, 0)
            self._status.hide()
            self._grow()
        self.thinking.append(text)

    def append(self, text: str) -> None:
        """The next piece of the answer."""
        if self.thinking is not None:
            self.thinking.end()
        self._source.append(text)
        self._pending.append(text)
        if not self._frame.isActive():
            self._frame.start()

    def add_step(self, step: Step) -> None:
        """Keep where the step's tokens came from."""
        if self.tokens is None:
            self.tokens = TokenView()
            self.tokens.hide()
            self.tokens.text.reshaped.connect(self._grow)
            self._layout.insertWidget(2, self.tokens)
            self.color_tokens(self._colors_tokens)
        self.tokens.add(step)

    def color_tokens(self, shown: bool) -> None:
        """Show the tokens by their origin in place of the formatted text, where origins are known."""
        self._colors_tokens = shown
        if self.tokens is not None and shown == self.tokens.isHidden():
            self.tokens.set_shown(shown)
            for view in self.views:
                view.setVisible(not shown)
            self._grow()

    def finish(self, figures: str, problem: str = "") -> None:
        """The answer has ended: show the rest, then its figures and what cut it off."""
        self._ended = True
        self.show_frame()
        if self.thinking is not None:
            self.thinking.end()
        self._status.hide()
        self.footer.show_end(figures, problem, can_copy=bool(self._source))
        self._grow()

    def add_bar(self, bar: MessageBar) -> None:
        """What can be done with the answer, beside the buttons that copy it."""
        self.footer.buttons.insertWidget(self.footer.buttons.count() - 1, bar)
        self.footer.figures.chosen.connect(bar.ask_figures)

    def copy_markdown(self) -> None:
        """Put the answer on the clipboard as Markdown."""
        # As text alone: a QMimeData made here would outlive Python, and crash the program at its end.
        QGuiApplication.clipboard().setText(self.source)
        self.footer.copy_markdown.show_copied()

    def copy_plain(self) -> None:
        """Put the answer on the clipboard as it reads, without marks."""
        while self._waiting:
            self.build_last()
        texts = (view.text if isinstance(view, CodeView) else view.plain_text() for view in self.views)
        QGuiApplication.clipboard().setText("\n\n".join(text.rstrip("\n") for text in texts))
        self.footer.copy_plain.show_copied()

    # --------------------------------------------------------------------- saved

    def _fill(self, entry: Entry) -> None:
        self._ended = True
        self._source = [entry.text]
        self._waiting = pieces(entry.text)
        if entry.thinking:
            self.append_thinking(entry.thinking)
        self.finish(entry.figures, entry.problem)

    @property
    def is_waiting(self) -> bool:
        """Whether pieces are not built yet."""
        return bool(self._waiting)

    def build_last(self) -> None:
        """Build the last piece that waits, above those that are built."""
        piece = self._waiting.pop()
        view: ProseView | CodeView
        if isinstance(piece, Code):
            view = self._make_code(piece.language)
            view.append(piece.text)
        else:
            view = ProseView()
            view.write(piece.blocks, self.width())
            view.reshaped.connect(self._grow)
        self._place(view, 0)
        self._grow()

    # ------------------------------------------------------------------ frames

    @property
    def is_showing(self) -> bool:
        """Whether there is text that is not shown yet."""
        return bool(self._pending or self._changes)

    def _on_frame(self) -> None:
        if self._skip:
            self._skip -= 1
        elif self.is_showing:
            begun = time.perf_counter()
            self.show_frame()
            self._skip = int((time.perf_counter() - begun) * 1000 / _COST_PER_SKIPPED_FRAME_MS)
        else:
            self._frame.stop()

    def show_frame(self) -> None:
        """Show what waits, as much as one frame has time for."""
        if self._pending:
            text = "".join(self._pending)
            self._pending.clear()
            self._status.hide()
            self._changes.extend(condensed(self._splitter.feed(text)))
        if self._ended:
            self._changes.extend(self._splitter.finish())
        self._apply_changes()
        if self._ended and not self._changes:
            self._frame.stop()
        self._grow()

    def _apply_changes(self) -> None:
        end_s = time.perf_counter() + _FRAME_BUDGET_S
        while self._changes:
            change = self._changes.popleft()
            following = self._changes[0] if self._changes else None
            if not (isinstance(change, ProseChanged) and isinstance(following, ProseChanged | ProseClosed)):
                self._apply(change)  # else it is replaced at once
            if time.perf_counter() > end_s:
                return

    def _apply(self, change: Change) -> None:
        match change:
            case ProseChanged(source):
                self._open_prose().show_open(source)
            case ProseClosed(source, goes_on):
                prose = self._open_prose()
                prose.close_open(source, goes_on)
                if ends_run(prose.chars, change):
                    self._prose = None
            case FenceOpened(language):
                self._prose = None
                self._code = self._make_code(language)
                self._place(self._code, len(self.views))
            case FenceText(text):
                assert self._code is not None
                self._code.append(text)
            case FenceClosed():
                self._code = None

    def _open_prose(self) -> ProseView:
        if self._prose is None:
            self._prose = ProseView()
            self._prose.reshaped.connect(self._grow)
            self._prose.lay_out(self.width())
            self._place(self._prose, len(self.views))
        return self._prose

    def _place(self, view: ProseView | CodeView, index: int) -> None:
        self.views.insert(index, view)
        self._blocks.insertWidget(index, view)
        # At once: else it comes with the next events, and counts for nothing until then.
        view.setVisible(self.tokens is None or self.tokens.isHidden())

    def _grow_with(self, code: CodeView) -> None:
        if (layout := code.layout()) is not None:
            layout.activate()
        self._grow()

    def _grow(self) -> None:
        """Lay out what lies within, from the inside out, and tell of it."""
        for widget in (self.thinking, self.tokens, self._code, self.footer):
            if widget is not None and (layout := widget.layout()) is not None:
                layout.activate()
        self._blocks.invalidate()  # Qt tells only the outermost layout of what has changed
        self._layout.invalidate()
        # Taller first: a layout without room would squeeze every block, and each would lay itself out twice.
        self.resize(self.width(), height_of(self._layout, self.width()))
        self._layout.activate()
        self.grown.emit()

    def _make_code(self, language: str) -> CodeView:
        code = CodeView(language)
        code.grown.connect(lambda: self._grow_with(code))
        return code
