"""A code block: language, copy button, and the code in a view that only ever grows."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QFontMetrics, QGuiApplication, QResizeEvent, QTextCursor, QWheelEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.chat.highlight import CodeHighlighter, lexer_for
from app.chat.lines import LineBreaker
from app.language import tr
from app.theme import code_font, colors, scaled
from app.widgets import set_kind

_SLICE_CHARS = 10_000
_HEADER_HEIGHT = 34
_SIDE = 14
_COPIED_MS = 1500


class CodeView(QFrame):
    """A fenced code block. Its header stays in sight while any of the code is (`stick`)."""

    grown = Signal()
    """More of a long code shows now."""

    def __init__(self, language: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "code")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._colors = colors()
        self._text = _CodeText(self)
        self._text.setAccessibleName(
            tr("Code, {language}").format(language=language) if language else tr("Code, no language named")
        )
        self._source: list[str] = []
        self._lines = LineBreaker()
        self._unwritten = ""
        self._rest = QTimer(self)
        self._rest.setInterval(0)
        self._rest.timeout.connect(self._write_some)
        lexer = lexer_for(language)
        self._highlighter = CodeHighlighter(self._text.document(), lexer, self._colors) if lexer else None
        layout = self._layout = QVBoxLayout(self)
        layout.setContentsMargins(_SIDE, scaled(_HEADER_HEIGHT), 4, 6)
        layout.addWidget(self._text)
        self._header = self._make_header(language)

    @property
    def text(self) -> str:
        """The code, whatever of it is broken on screen."""
        return "".join(self._source)

    @property
    def is_written(self) -> bool:
        """Whether all of it shows."""
        return not self._unwritten

    @property
    def view(self) -> QPlainTextEdit:
        """The widget that shows the code."""
        return self._text

    def append(self, text: str) -> None:
        """Add text at the end; much of it shows over several rounds of events."""
        self._source.append(text)
        self._unwritten += text
        if not self._rest.isActive():
            self._write_some()

    def _write_some(self) -> None:
        text, self._unwritten = self._unwritten[:_SLICE_CHARS], self._unwritten[_SLICE_CHARS:]
        if self._highlighter:
            self._highlighter.begin_slice()
        cursor = QTextCursor(self._text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(self._lines.broken(text))
        self._text.fit()
        if self._rest.isActive():
            self.grown.emit()
        if self._unwritten:
            self._rest.start()
        else:
            self._rest.stop()

    def stick(self, top: int) -> None:
        """Keep the header at `top` (in this widget's coordinates) as far as the block reaches."""
        self._header.move(0, max(0, min(top, self.height() - self._header.height())))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The header is as wide as the block."""
        super().resizeEvent(event)
        self._header.resize(self.width(), scaled(_HEADER_HEIGHT))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """New colours and sizes."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._colors is not colors():
            self._colors = colors()
            self._header.resize(self.width(), scaled(_HEADER_HEIGHT))
            self._layout.setContentsMargins(_SIDE, scaled(_HEADER_HEIGHT), 4, 6)
            if self._highlighter:
                self._highlighter.set_colors(self._colors)

    def _make_header(self, language: str) -> QWidget:
        header = QFrame(self)
        set_kind(header, "code-header")
        label = QLabel(language or tr("code"))
        set_kind(label, "muted")
        self._copy = QPushButton(tr("Copy"))
        set_kind(self._copy, "quiet")
        self._copy.setAccessibleName(
            tr("Copy this {language} code").format(language=language) if language else tr("Copy this code")
        )
        self._copy.clicked.connect(self._copy_text)
        self._copied = QTimer(self)
        self._copied.setSingleShot(True)
        self._copied.setInterval(_COPIED_MS)
        self._copied.timeout.connect(lambda: self._copy.setText(tr("Copy")))
        layout = QHBoxLayout(header)
        layout.setContentsMargins(_SIDE, 0, 6, 0)
        layout.addWidget(label)
        layout.addStretch()
        layout.addWidget(self._copy)
        return header

    def _copy_text(self) -> None:
        QGuiApplication.clipboard().setText(self.text)
        self._copy.setText(tr("Copied"))
        self._copied.start()


class _CodeText(QPlainTextEdit):
    """Read-only code, as tall as its lines; long lines scroll sideways."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setTabChangesFocus(True)
        self.setUndoRedoEnabled(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(0)
        option = self.document().defaultTextOption()
        option.setTextDirection(Qt.LayoutDirection.LeftToRight)  # also where it begins with a comment in Hebrew
        self.document().setDefaultTextOption(option)
        set_kind(self, "code-text")
        self.setFont(code_font())  # until the style sheet is applied
        self._measure_anew()
        self.horizontalScrollBar().rangeChanged.connect(lambda _low, _high: self.fit())
        self.fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Another font, which the style sheet names: measure again."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._measure_anew()

    def _measure_anew(self) -> None:
        self.setTabStopDistance(4 * QFontMetrics(code_font()).horizontalAdvance(" "))
        self._next_line = 0  # the first one that is not measured yet
        self._lines_height = 0.0
        self.fit()

    def fit(self) -> None:
        """Take the height of the lines, and of the sideways bar where there is one."""
        bar = self.horizontalScrollBar()
        bar_height = bar.sizeHint().height() if bar.maximum() > 0 else 0
        height = math.ceil(self._text_height()) + 4 + bar_height
        if height != self.height():
            self.setFixedHeight(height)

    def _text_height(self) -> float:
        """By geometry, not by counting lines: one with letters of another font may be taller."""
        layout, last = self.document().documentLayout(), self.document().lastBlock()
        # By number: a block kept from before may be gone, where a line ended in letters that Qt reads otherwise.
        number, height = self._next_line, self._lines_height
        block = self.document().findBlockByNumber(number)
        while block.isValid() and block.blockNumber() < last.blockNumber():  # these are complete
            height += layout.blockBoundingRect(block).height()  # may lay out, and so come here again from within
            block = block.next()
        self._next_line, self._lines_height = last.blockNumber(), height
        return self._lines_height + layout.blockBoundingRect(last).height()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Sideways wheels scroll the code, the others the transcript."""
        if abs(event.angleDelta().x()) > abs(event.angleDelta().y()):
            super().wheelEvent(event)
        else:
            event.ignore()
