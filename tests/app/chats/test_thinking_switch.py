"""Thinking is switched on and off chat by chat, where the loaded model has a switch for it."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from helpers.chats_window import open_chat, ready, send, stored, until_answered, until_open
from helpers.window import OpenWindow


def test_the_switch_is_hidden_where_the_model_has_none(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    assert not window.composer.thinking.isVisible()
    window.composer.toggle_thinking()
    assert window.chats.current.options.sampling.thinking is None


def test_each_chat_has_its_own_choice_and_keeps_it(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window("--thinks"), qtbot)
    switch = window.composer.thinking
    assert switch.isVisible()
    assert switch.isChecked()  # what the model does untold
    send(window, qtbot)
    assert until_answered(window, qtbot).content == "thinking: None"
    switch.click()
    send(window, qtbot)
    assert until_answered(window, qtbot).content == "thinking: False"
    first = open_chat(window)
    window.chats.new()
    assert switch.isChecked()
    window.composer.toggle_thinking()
    window.composer.toggle_thinking()
    send(window, qtbot)
    assert until_answered(window, qtbot).content == "thinking: True"
    until_open(window, qtbot, first)
    assert not switch.isChecked()
    assert stored(lambda store: store.get(first)).options.sampling.thinking is False
    dialog = window.room.open_options()
    dialog.fields["temperature"].setText("0.5")
    dialog.save.click()
    assert window.chats.current.options.sampling.thinking is False
    assert window.chats.current.options.sampling.temperature == 0.5
