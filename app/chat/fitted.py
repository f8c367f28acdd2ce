"""A read-only text view as tall as its text: copying, links, marks. Nothing that a text names is loaded."""

from __future__ import annotations

import math

from PySide6.QtCore import QByteArray, QSize, QSizeF, Qt, QUrl, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QMenu, QSizePolicy, QTextBrowser, QWidget

from app.chat.copying import markdown, plain_text
from app.chat.links import LinkBubble
from app.chat.syntax import is_openable
from app.language import tr


class FittedText(QTextBrowser):
    """Takes the height of its text at its width."""

    reshaped = Signal()
    """The text changed its height by itself."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setUndoRedoEnabled(False)
        self.setOpenLinks(False)
        self.document().setDocumentMargin(0)
        self.anchorClicked.connect(self._ask_to_open)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)

    # ------------------------------------------------------------------ height

    def lay_out(self, width: int) -> None:
        """Take this width before the first layout, so that the height is right from the first word on."""
        self.resize(width, 0)
        self.document().setTextWidth(width)
        self._fit(self.document().size())

    def sizeHint(self) -> QSize:  # noqa: N802
        """As tall as the text."""
        return QSize(super().sizeHint().width(), self.height())

    def _fit(self, size: QSizeF) -> None:
        # Without the gap below the last block: what follows keeps its own distance.
        height = math.ceil(size.height() - self.document().lastBlock().blockFormat().bottomMargin())
        if height != self.height():
            self.setFixedHeight(height)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Leave the wheel to the transcript."""
        event.ignore()

    # ----------------------------------------------------------------- outside

    def loadResource(self, _kind: int, _name: QUrl | str) -> QByteArray:  # noqa: N802
        """Nothing a message names is read, from the network or from the disk."""
        return QByteArray()

    def _ask_to_open(self, url: QUrl) -> None:
        if is_openable(url.toString()):
            window = self.window()
            LinkBubble(url, window).show_at(self.mapTo(window, self.cursorRect().bottomLeft()))

    # -------------------------------------------------------------------- copy

    def copy_plain(self) -> None:
        """Put the selection on the clipboard as plain text."""
        # As text alone: a QMimeData made here would outlive Python, and crash the program at its end.
        QGuiApplication.clipboard().setText(plain_text(self.textCursor()))

    def copy_markdown(self) -> None:
        """Put the selection on the clipboard as Markdown."""
        QGuiApplication.clipboard().setText(markdown(self.textCursor()))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Copy is our own: Qt's would drop formulas."""
        if event.matches(QKeySequence.StandardKey.Copy) and self.textCursor().hasSelection():
            self.copy_plain()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """Copy in both forms, and select."""
        self.make_menu().popup(event.globalPos())

    def make_menu(self) -> QMenu:
        """The context menu."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for text, run in ((tr("Copy"), self.copy_plain), (tr("Copy as Markdown"), self.copy_markdown)):
            menu.addAction(text, run).setEnabled(self.textCursor().hasSelection())
        menu.addAction(tr("Select all"), self.selectAll)
        return menu

    def select(self, start: int, end: int) -> None:
        """Select a range of the document's positions."""
        cursor = QTextCursor(self.document())
        cursor.setPosition(start)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        self.setTextCursor(cursor)
