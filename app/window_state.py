"""What the window remembers between two starts: its place, what it shows, the chat that was open."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QSettings, QSize
from PySide6.QtWidgets import QPushButton

from core.paths import state_dir

if TYPE_CHECKING:
    from app.main_window import MainWindow

SMALLEST = QSize(900, 600)
_FIRST_SIZE = QSize(1280, 800)
_GEOMETRY, _LAST_CHAT = "geometry", "chat"


def save(window: MainWindow) -> None:
    """Remember the window as it is."""
    settings = _settings()
    settings.setValue(_GEOMETRY, window.saveGeometry())
    for name, toggle in _toggles(window).items():
        settings.setValue(name, toggle.isChecked())


def restore(window: MainWindow) -> None:
    """Place and fold the window as it was; at the first time, as the screen has room."""
    settings = _settings()
    for name, toggle in _toggles(window).items():
        toggle.setChecked(str(settings.value(name, "true")).lower() == "true")
    window.panel.setVisible(window.panel_toggle.isChecked())
    window.sidebar.setVisible(window.sidebar_toggle.isChecked())
    geometry = settings.value(_GEOMETRY)
    if not isinstance(geometry, QByteArray) or not window.restoreGeometry(geometry):
        available = window.screen().availableGeometry().size()
        window.resize(_FIRST_SIZE.boundedTo(available).expandedTo(SMALLEST))


def remember_chat(chat_id: int | None) -> None:
    """Open this chat at the next start, however this one ends."""
    _settings().setValue(_LAST_CHAT, "" if chat_id is None else chat_id)


def last_chat() -> int | None:
    """The number of the chat that was open last."""
    number = str(_settings().value(_LAST_CHAT, ""))
    return int(number) if re.fullmatch("[0-9]{1,18}", number) else None  # the file holds no larger ones


def _toggles(window: MainWindow) -> dict[str, QPushButton]:
    return {"statistics": window.panel_toggle, "chats": window.sidebar_toggle}


def _settings() -> QSettings:
    return QSettings(str(state_dir() / "window.ini"), QSettings.Format.IniFormat)
