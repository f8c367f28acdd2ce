"""Links in messages: the user sees the whole address before anything outside the window opens."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import QPoint, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.chat.syntax import is_openable
from app.language import tr
from app.widgets import label, push_button, set_kind

_WIDTH = 420
_MARGIN = 8


class LinkBubble(QFrame):
    """Asks whether to open an address, above the window's other contents; gone with Esc or a click elsewhere."""

    def __init__(self, url: QUrl, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        set_kind(self, "link-bubble")
        self.setAccessibleName(tr("Open this address?"))
        # As it goes over the wire: letters that look like others, or turn the direction, show as codes.
        self._url = url
        self._application = cast(QApplication, QApplication.instance())
        self.address = QLabel(_breakable(address(url)))
        self.address.setTextFormat(Qt.TextFormat.PlainText)
        self.address.setWordWrap(True)
        self.address.setFixedWidth(_WIDTH)
        self.address.setAccessibleName(address(url))
        self.open_button = push_button(tr("Open"), tr("Open this address outside the window"))
        self.open_button.clicked.connect(self._open)
        self.copy_button = push_button(tr("Copy address"), tr("Put the address on the clipboard"))
        self.copy_button.clicked.connect(self._copy)
        buttons = QHBoxLayout()
        buttons.addStretch()
        buttons.addWidget(self.copy_button)
        buttons.addWidget(self.open_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(14, 12, 14, 12)
        layout.addWidget(label(tr("Open this address outside the window?"), "muted"))
        layout.addWidget(self.address)
        layout.addLayout(buttons)

    def show_at(self, place: QPoint) -> None:
        """Show below `place` (of the window), within the window."""
        self.adjustSize()
        room = self._window.rect().adjusted(_MARGIN, _MARGIN, -_MARGIN, -_MARGIN)
        self.move(
            max(room.left(), min(place.x(), room.right() - self.width())),
            max(room.top(), min(place.y() + _MARGIN, room.bottom() - self.height())),
        )
        self.show()
        self.raise_()
        self.open_button.setFocus()
        self._application.focusChanged.connect(self._on_focus)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Esc: do not open."""
        if event.key() == Qt.Key.Key_Escape:
            self._end()
        else:
            super().keyPressEvent(event)

    def _on_focus(self, _old: QWidget | None, now: QWidget | None) -> None:
        if now is not None and not self.isAncestorOf(now):
            self._end()

    def _end(self) -> None:
        self._application.focusChanged.disconnect(self._on_focus)
        self.hide()
        self.deleteLater()

    def _open(self) -> None:
        self._end()
        open_outside(self._url)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(address(self._url))
        self._end()


def address(url: QUrl) -> str:
    """The address in full, with nothing hidden or decoded."""
    return bytes(url.toEncoded().data()).decode("ascii", "replace")


def open_outside(url: QUrl) -> None:
    """Open a link with the user's browser or mail program; other schemes are not for messages to use."""
    if is_openable(url.toString()):
        QDesktopServices.openUrl(url)


def _breakable(text: str) -> str:
    """With places where a label may break a line."""
    return "\u200b".join(text[start : start + 20] for start in range(0, len(text), 20))
