"""One answer: blocks that grow while it streams in, then its line of figures."""

from __future__ import annotations

import time

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.chat.blocks import BlockSplitter, Change, FenceClosed, FenceOpened, FenceText, ProseChanged, ProseClosed
from app.chat.code import CodeView
from app.chat.prose import ProseView
from app.chat.thinking import ThinkingView
from app.widgets import label, set_kind

FRAME_MS = 33
_COST_PER_SKIPPED_FRAME_MS = 8
_COPIED_MS = 1500


class AnswerView(QWidget):
    """Takes text as it comes and shows it at most once a frame, less often where showing it is slow."""

    code_added = Signal(object)
    """`CodeView`."""
    grown = Signal()
    """After each change of what is shown."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Answer")
        # Never squeezed while the transcript has not made room yet: that would move what is being read.
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._source: list[str] = []
        self._pending: list[str] = []
        self._splitter = BlockSplitter()
        self._prose: ProseView | None = None
        self._code: CodeView | None = None
        self._skip = 0
        self._frame = QTimer(self)
        self._frame.setInterval(FRAME_MS)
        self._frame.timeout.connect(self._on_frame)
        self.thinking: ThinkingView | None = None
        self._thinking_place = QVBoxLayout()
        self._blocks = QVBoxLayout()
        self._blocks.setSpacing(12)
        self._status = label("", "muted")
        self._footer = self._make_footer()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addLayout(self._thinking_place)
        layout.addLayout(self._blocks)
        layout.addWidget(self._status)
        layout.addWidget(self._footer)

    @property
    def source(self) -> str:
        """The answer's Markdown so far."""
        return "".join(self._source)

    def set_status(self, text: str) -> None:
        """What is waited for, in words; shown until the first text comes."""
        self._status.setText(text)

    def append_thinking(self, text: str) -> None:
        """The next piece of what the model thinks before it answers."""
        if self.thinking is None:
            self.thinking = ThinkingView()
            self.thinking.toggled.connect(self.grown)
            self._thinking_place.addWidget(self.thinking, 0)
            self._status.hide()
            self.grown.emit()
        self.thinking.append(text)

    def append(self, text: str) -> None:
        """The next piece of the answer."""
        if self.thinking is not None:
            self.thinking.end()
        self._source.append(text)
        self._pending.append(text)
        if not self._frame.isActive():
            self._frame.start()

    def finish(self, figures: str, problem: str = "") -> None:
        """The answer has ended: show the rest, then its figures and what cut it off."""
        self._show_pending()
        self._frame.stop()
        self._apply(self._splitter.finish())
        if self.thinking is not None:
            self.thinking.end()
        self._status.hide()
        self._figures.setText(figures)
        self._figures.setVisible(bool(figures))
        self._problem.setText(problem)
        self._problem.setVisible(bool(problem))
        self._copy.setVisible(bool(self._source))
        self._footer.show()
        self.grown.emit()

    def add_bar(self, bar: QWidget) -> None:
        """What can be done with the answer, below its figures."""
        self._buttons.insertWidget(1, bar)

    def copy_markdown(self) -> None:
        """Put the answer on the clipboard as Markdown."""
        # As text alone: a QMimeData made here would outlive Python, and crash the program at its end.
        QGuiApplication.clipboard().setText(self.source)
        self._copy.setText("Copied")
        self._copied.start()

    # ------------------------------------------------------------------ frames

    def _on_frame(self) -> None:
        if self._skip:
            self._skip -= 1
        elif self._pending:
            begun = time.perf_counter()
            self._show_pending()
            self._skip = int((time.perf_counter() - begun) * 1000 / _COST_PER_SKIPPED_FRAME_MS)
        else:
            self._frame.stop()

    def _show_pending(self) -> None:
        if self._pending:
            text = "".join(self._pending)
            self._pending.clear()
            self._status.hide()
            self._apply(self._splitter.feed(text))
            self.grown.emit()

    def _apply(self, changes: list[Change]) -> None:
        for index, change in enumerate(changes):
            match change:
                case ProseChanged(source):
                    following = changes[index + 1] if index + 1 < len(changes) else None
                    if not isinstance(following, ProseChanged | ProseClosed):  # else it is replaced at once
                        self._open_prose().show_open(source)
                case ProseClosed(source):
                    self._open_prose().close_open(source)
                case FenceOpened(language):
                    self._open_code(language)
                case FenceText(text):
                    assert self._code is not None
                    self._code.append(text)
                case FenceClosed():
                    self._code = None

    def _open_prose(self) -> ProseView:
        if self._prose is None:
            self._prose = ProseView()
            self._prose.lay_out(self.width())
            self._blocks.addWidget(self._prose)
        return self._prose

    def _open_code(self, language: str) -> None:
        self._prose = None
        self._code = CodeView(language)
        self._blocks.addWidget(self._code)
        self.code_added.emit(self._code)

    # ------------------------------------------------------------------ footer

    def _make_footer(self) -> QWidget:
        self._figures = label("", "figures", wraps=True)
        self._figures.setAccessibleName("Figures of this answer")
        self._problem = label("", "bad", wraps=True)
        self._copy = QPushButton("Copy")
        set_kind(self._copy, "quiet")
        self._copy.setAccessibleName("Copy this answer as Markdown")
        self._copy.setToolTip("Copy this answer as Markdown")
        self._copy.clicked.connect(self.copy_markdown)
        self._copied = QTimer(self)
        self._copied.setSingleShot(True)
        self._copied.setInterval(_COPIED_MS)
        self._copied.timeout.connect(lambda: self._copy.setText("Copy"))
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self._figures)
        texts.addWidget(self._problem)
        footer = QWidget()
        layout = QVBoxLayout(footer)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(texts)
        self._buttons = QHBoxLayout()
        self._buttons.setSpacing(2)
        self._buttons.addWidget(self._copy)
        self._buttons.addStretch(1)
        layout.addLayout(self._buttons)
        footer.hide()
        return footer
