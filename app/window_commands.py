"""What the window can be asked to do, with its keys, and the menu that shows it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QMenu

from app.language import tr

if TYPE_CHECKING:
    from app.main_window import MainWindow


def add_commands(window: MainWindow) -> None:
    """Name each command once; its key works from now on."""
    add_chat_commands(window)
    add = window.commands.add
    room = window.room
    add("Answer", tr("Stop"), "Esc", room.stop)
    add("Answer", tr("Regenerate"), "Ctrl+Shift+G", room.regenerate)
    add("Answer", tr("Continue"), "Ctrl+G", room.proceed)
    add("Answer", tr("Copy the answer"), "Ctrl+Shift+C", room.copy_answer)
    add("Answer", tr("Show or hide the thinking"), "Ctrl+T", room.toggle_thinking)
    add("Model", tr("Choose a pair…"), "Ctrl+P", window.open_picker)
    add("Model", tr("Load or unload the pair"), "Ctrl+Shift+P", window.pair_button.click)
    add("Model", tr("Choose the mode"), "Ctrl+Shift+M", window.mode_selector.showPopup)
    add("Model", tr("Race…"), "Ctrl+Shift+A", window.tools.open_race)
    add("Model", tr("Check this pair…"), "Ctrl+Shift+K", window.tools.open_check)
    add("View", tr("Chats"), "Ctrl+B", window.sidebar_toggle.toggle)
    add("View", tr("Statistics"), "Ctrl+Shift+S", window.panel_toggle.toggle)
    add("View", tr("Find in this chat"), "Ctrl+F", room.find_bar.open_bar)
    add("View", tr("Colour tokens"), "Ctrl+Shift+T", window.transcript.toggle_token_colors).setCheckable(True)
    add("View", tr("Jump to the end"), "Ctrl+J", window.transcript.scroll_to_end)


def add_chat_commands(window: MainWindow) -> None:
    """Those about the chats and what is typed."""
    add = window.commands.add
    room, sidebar, files = window.room, window.sidebar, window.files
    add("Chat", tr("New chat"), "Ctrl+N", window.chats.new)
    add("Chat", tr("Search chats"), "Ctrl+K", lambda: _in_sidebar(window, sidebar.start_search))
    add("Chat", tr("Next chat"), "Ctrl+PgDown", lambda: sidebar.step(1))
    add("Chat", tr("Previous chat"), "Ctrl+PgUp", lambda: sidebar.step(-1))
    add("Chat", tr("Rename chat"), "F2", lambda: _in_sidebar(window, sidebar.rename))
    add("Chat", tr("Pin or unpin chat"), "", sidebar.pin)
    add("Chat", tr("Delete chat"), "Ctrl+Shift+Backspace", lambda: _in_sidebar(window, sidebar.delete))
    add("Chat", tr("Chat options…"), "Ctrl+Shift+O", room.open_options)
    add("Chat", tr("Export chat…"), "Ctrl+E", files.ask_export)
    add("Chat", tr("Export all chats…"), "", files.ask_export_all)
    add("Chat", tr("Import chats…"), "Ctrl+I", files.ask_import)
    add("Chat", tr("Write a message"), "Ctrl+L", window.composer.setFocus)
    add("Chat", tr("Attach text files…"), "Ctrl+O", files.ask_attach)
    add("Chat", tr("Thinking on or off"), "Ctrl+Shift+H", window.composer.toggle_thinking)
    add("Chat", tr("Edit the last message"), "Ctrl+Up", room.edit_last)


def show_menu(window: MainWindow) -> None:
    """The menu bar on a Mac, elsewhere the menu of a button."""
    if sys.platform == "darwin":  # not verified on a Mac
        window.commands.fill(window.menuBar())
        window.menu_button.hide()
    else:
        menu = QMenu(window.menu_button)
        window.commands.fill(menu)
        window.menu_button.setMenu(menu)


def _in_sidebar(window: MainWindow, action: Callable[[], None]) -> None:
    window.sidebar_toggle.setChecked(True)
    action()
