"""The commands in menus and by key."""

from PySide6.QtWidgets import QMainWindow, QMenu
from pytestqt.qtbot import QtBot

from app.commands import Commands
from helpers.window import OpenWindow


def test_a_command_runs_from_its_menu_and_is_listed_with_its_key(qtbot: QtBot) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    ran: list[str] = []
    commands = Commands(window)
    commands.add("View", "Find", "Ctrl+F", lambda: ran.append("find"))
    commands.add("Chat", "New chat", "Ctrl+N", lambda: ran.append("new"))
    menu = QMenu(window)
    commands.fill(menu)
    assert [action.text() for action in menu.actions()] == ["Chat", "View"]
    chat = menu.findChildren(QMenu)[0]
    chat.actions()[0].trigger()
    assert ran == ["new"]
    assert [(command.text, command.key) for command in commands] == [("Find", "Ctrl+F"), ("New chat", "Ctrl+N")]


def test_no_two_commands_of_the_window_share_a_key(open_window: OpenWindow) -> None:
    keys = [command.key for command in open_window().commands if command.key]
    assert len(keys) == len(set(keys)) > 5
