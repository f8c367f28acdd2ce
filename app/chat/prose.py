"""Text views as tall as their text, and the one that shows a run of Markdown prose while it is written."""

from __future__ import annotations

import math

from PySide6.QtCore import QByteArray, QEvent, QSize, QSizeF, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QTextBlockFormat, QTextCharFormat, QTextCursor, QTextOption, QWheelEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QWidget

from app.chat.markdown import MarkdownWriter
from app.theme import colors

LONG_OPEN_CHARS = 4000
"""An open block beyond this is appended as plain text and formatted once it closes."""
_OPENABLE = ("http", "https", "mailto")


class FittedText(QTextBrowser):
    """A read-only text view that takes its text's height. It loads nothing; links open outside the window."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setOpenLinks(False)
        self.document().setDocumentMargin(0)
        self.anchorClicked.connect(open_outside)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)

    def loadResource(self, _kind: int, _name: QUrl | str) -> QByteArray:  # noqa: N802
        """Nothing a message names is read, from the network or from the disk."""
        return QByteArray()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Leave the wheel to the transcript."""
        event.ignore()

    def lay_out(self, width: int) -> None:
        """Take this width before the first layout, so that the height is right from the first word on."""
        self.resize(width, 0)
        self.document().setTextWidth(width)
        self._fit(self.document().size())

    def sizeHint(self) -> QSize:  # noqa: N802
        """As tall as the text."""
        return QSize(super().sizeHint().width(), self.height())

    def _fit(self, size: QSizeF) -> None:
        height = math.ceil(size.height())
        if height != self.height():
            self.setFixedHeight(height)


def open_outside(url: QUrl) -> None:
    """Open a link with the user's browser or mail program; other schemes are not for messages to use."""
    if url.scheme().lower() in _OPENABLE:
        QDesktopServices.openUrl(url)


class ProseView(FittedText):
    """Consecutive blocks of prose in one document, of which only the last one is still changed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Answer text")
        self._colors = colors()
        self._closed: list[str] = []
        self._open: str | None = None
        self._open_start = 0
        self._open_is_plain = False
        self._end_is_free = True  # the document ends in an empty block that the next block may take

    def show_open(self, source: str) -> None:
        """The last block now reads `source`."""
        if self._open is None:
            self._begin_block()
        if len(source) > LONG_OPEN_CHARS:
            self._show_plain(source)
        else:
            self._replace_open(source)
        self._open = source

    def close_open(self, source: str) -> None:
        """The last block is complete."""
        if self._open is None:
            self._begin_block()
        if source != self._open or self._open_is_plain:
            self._replace_open(source)
        self._open = None
        self._open_is_plain = False
        self._closed.append(source)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """New colours: the document carries the old ones, so it is made again."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._colors is not colors():
            self._colors = colors()
            closed, opened = self._closed, self._open
            self.document().clear()
            self._closed, self._open, self._open_is_plain, self._end_is_free = [], None, False, True
            for source in closed:
                self.close_open(source)
            if opened is not None:
                self.show_open(opened)

    def _begin_block(self) -> None:
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if not self._end_is_free:
            cursor.insertBlock(QTextBlockFormat(), QTextCharFormat())
        self._open_start = cursor.position()

    def _replace_open(self, source: str) -> None:
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        cursor.setPosition(self._open_start)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        writer = MarkdownWriter(cursor, self._colors)
        writer.write(source)
        cursor.endEditBlock()
        self._end_is_free = writer.block_is_free
        self._open_is_plain = False

    def _show_plain(self, source: str) -> None:
        if not self._open_is_plain:
            self._replace_open("")
            self._open_is_plain, self._end_is_free = True, False
            shown = ""
        else:
            shown = self._open or ""
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(source[len(shown) :], QTextCharFormat())
