"""The icon in the tray or menu bar: live speed, quick unload, show and hide. Without a tray it does nothing."""

from __future__ import annotations

import sys

from PySide6.QtCore import QObject, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from app.engine import STATE_WORDS, PairState, PairStatus
from app.language import tr
from app.theme import LIGHT

_SIDE_PX = 44  # twice what trays show, for screens with narrow pixels


class Tray(QObject):
    """Shows what it is told; what the user wants is told by signals."""

    show_requested = Signal()
    hide_requested = Signal()
    load_requested = Signal()
    unload_requested = Signal()
    quit_requested = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.icon: QSystemTrayIcon | None = None
        self._speed: float | None = None
        self._state = ""
        self.menu = QMenu()
        self.headline = self.menu.addAction("")
        self.headline.setEnabled(False)
        self.menu.addSeparator()
        self._window_shown = True
        self.toggle = self.menu.addAction("", self._on_toggle)
        self.load = self.menu.addAction(tr("Load the pair"), self.load_requested.emit)
        self.unload = self.menu.addAction(tr("Free the pair's memory"), self.unload_requested.emit)
        self.menu.addSeparator()
        self.menu.addAction(tr("Quit Mirror SD"), self.quit_requested.emit)
        self.set_window_shown(True)
        self.show_status(PairStatus(), busy=False)

    def set_shown(self, shown: bool) -> None:
        """Show or hide the icon, where the system has a place for it."""
        if shown and self.icon is None and QSystemTrayIcon.isSystemTrayAvailable():
            self.icon = QSystemTrayIcon(self)
            self.icon.setContextMenu(self.menu)
            self.icon.activated.connect(self._on_activated)
            self._refresh()
        if self.icon is not None:
            self.icon.setVisible(shown)

    def set_window_shown(self, shown: bool) -> None:
        """Whether the window can be seen."""
        self._window_shown = shown
        self.toggle.setText(tr("Hide the window") if shown else tr("Show the window"))

    def show_status(self, status: PairStatus, busy: bool) -> None:
        """The pair, and whether something is under way with it."""
        name = status.name or tr("No pair")
        self._state = f"{name}: {STATE_WORDS[status.state]}"
        self.load.setVisible(status.state in (PairState.NOT_READY, PairState.FAILED))
        self.load.setEnabled(not busy)
        self.unload.setVisible(status.state is PairState.READY)
        self.unload.setEnabled(not busy)
        self._refresh()

    def show_speed(self, tokens_per_second: float | None) -> None:
        """The speed of the answer under way; None between answers."""
        self._speed = tokens_per_second
        self._refresh()

    def notify(self, title: str, text: str) -> bool:
        """Show a message of the system's; False where there is none."""
        if self.icon is None or not self.icon.isVisible() or not QSystemTrayIcon.supportsMessages():
            return False
        self.icon.showMessage(title, text, QSystemTrayIcon.MessageIcon.NoIcon)
        return True

    def close(self) -> None:
        """Take the icon away."""
        if self.icon is not None:
            self.icon.hide()

    def _refresh(self) -> None:
        speed = "" if self._speed is None else tr("{speed} tok/s").format(speed=f"{self._speed:.0f}")
        self.headline.setText(f"{speed}  ·  {self._state}" if speed else self._state)
        if self.icon is not None:
            self.icon.setIcon(tray_icon("" if self._speed is None else f"{self._speed:.0f}"))
            self.icon.setToolTip(f"Mirror SD\n{self.headline.text()}")

    def _on_toggle(self) -> None:
        (self.hide_requested if self._window_shown else self.show_requested).emit()

    def _on_activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason is QSystemTrayIcon.ActivationReason.Trigger and sys.platform != "darwin":  # there it opens the menu
            self._on_toggle()


def tray_icon(text: str) -> QIcon:
    """A number, or the program's letter; on a Mac in the menu bar's own colour (not verified on a Mac)."""
    mask = sys.platform == "darwin"
    pixmap = QPixmap(_SIDE_PX, _SIDE_PX)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    square = QRectF(1, 1, _SIDE_PX - 2, _SIDE_PX - 2)
    if not mask:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(LIGHT.accent_fill))
        painter.drawRoundedRect(square, 10, 10)
    font = QFont()
    font.setBold(True)
    font.setPixelSize({0: 30, 1: 30, 2: 28, 3: 20}.get(len(text), 15))
    painter.setFont(font)
    painter.setPen(Qt.GlobalColor.black if mask else QColor(LIGHT.on_fill))
    painter.drawText(square, Qt.AlignmentFlag.AlignCenter, text or "M")
    painter.end()
    icon = QIcon(pixmap)
    icon.setIsMask(mask)
    return icon
