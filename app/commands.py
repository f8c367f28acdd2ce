"""What the window can be asked to do: each command is named once, with its key; menus and the sheet of keys show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenu, QMenuBar

from app.language import tr

Section = Literal["Chat", "Answer", "Model", "View", "Help"]
SECTION_WORDS: dict[Section, str] = {
    "Chat": tr("Chat"),
    "Answer": tr("Answer"),
    "Model": tr("Model"),
    "View": tr("View"),
    "Help": tr("Help"),
}
"""As menus and the sheet of keys name them."""


@dataclass(frozen=True)
class Command:
    """One command as menus show it."""

    section: Section
    text: str
    """As in a menu, without its key: `New chat`."""
    key: str
    """As `QKeySequence` reads it, for example `Ctrl+N` (Command+N on a Mac); empty without one."""
    run: Callable[[], Any]


class Commands(QObject):
    """The window's commands, in the order in which they were added."""

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._actions: list[tuple[Command, QAction]] = []
        self._filled: list[QMenu | QMenuBar] = []
        self._submenus: dict[tuple[int, Section], QMenu] = {}

    def __iter__(self) -> Iterator[Command]:
        return (command for command, _ in self._actions)

    def add(self, section: Section, text: str, key: str, run: Callable[[], Any]) -> QAction:
        """Add a command; its key works from now on. The action can be checkable or disabled by its owner."""
        action = QAction(text, self._window)
        action.setShortcut(QKeySequence(key))
        action.triggered.connect(lambda: run())
        self._window.addAction(action)  # or the key works only while a menu shows it
        self._actions.append((Command(section, text, key, run), action))
        for menu in self._filled:
            self._put(menu, section, action)
        return action

    def fill(self, menu: QMenu | QMenuBar) -> None:
        """Add a submenu for each section that has commands; those that are added later come into it as well."""
        self._filled.append(menu)
        for section in get_args(Section):
            for command, action in self._actions:
                if command.section == section:
                    self._put(menu, section, action)

    def _put(self, menu: QMenu | QMenuBar, section: Section, action: QAction) -> None:
        key = self._filled.index(menu), section
        if key not in self._submenus:
            sections = get_args(Section)
            later = (self._submenus.get((key[0], each)) for each in sections[sections.index(section) + 1 :])
            before = next((each.menuAction() for each in later if each is not None), None)
            self._submenus[key] = QMenu(SECTION_WORDS[section], menu)
            if before is None:
                menu.addMenu(self._submenus[key])
            else:
                menu.insertMenu(before, self._submenus[key])
        self._submenus[key].addAction(action)
