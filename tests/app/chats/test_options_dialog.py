"""The options of one chat."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.chats.options_dialog import OptionsDialog
from app.theme import Theme
from core.chats import ChatOptions, Sampling
from core.settings import Settings
from helpers.chats_window import ready
from helpers.window import OpenWindow


def opened(qtbot: QtBot, options: ChatOptions) -> tuple[OptionsDialog, list[ChatOptions]]:
    chosen: list[ChatOptions] = []
    dialog = OptionsDialog(options, Settings(temperature=0.7))
    dialog.chosen.connect(chosen.append)
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog, chosen


def test_empty_fields_follow_the_settings(qtbot: QtBot, theme: Theme) -> None:  # noqa: ARG001
    dialog, chosen = opened(qtbot, ChatOptions(mode="plain", pair="A pair"))
    assert dialog.fields["temperature"].placeholderText() == "0.7"
    assert dialog.fields["seed"].placeholderText() == "another one for each version"
    dialog.save.click()
    assert chosen == [ChatOptions(mode="plain", pair="A pair")]


def test_what_is_chosen_is_shown_and_can_be_changed(qtbot: QtBot, theme: Theme) -> None:  # noqa: ARG001
    before = ChatOptions("Be brief.", Sampling(temperature=0.5, seed=7, stop=("END", "STOP"), width=8))
    dialog, chosen = opened(qtbot, before)
    assert dialog.prompt.toPlainText() == "Be brief."
    assert [dialog.fields[name].text() for name in ("temperature", "seed", "top_p")] == ["0.5", "7", ""]
    assert dialog.stop.text() == "END, STOP"
    dialog.fields["temperature"].setText("")
    dialog.fields["top_p"].setText("0,9")
    dialog.fields["max_tokens"].setText("50")
    dialog.save.click()
    assert chosen == [
        ChatOptions("Be brief.", Sampling(seed=7, top_p=0.9, max_tokens=50, stop=("END", "STOP"), width=8))
    ]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("temperature", "3", "Temperature must be a number from 0 to 2."),
        ("temperature", "nan", "Temperature must be a number from 0 to 2."),
        ("max_tokens", "1.5", "Longest answer, in tokens must be a whole number from 1 to 1,000,000."),
        ("seed", "-1", "Seed must be a whole number from 0 to 2,147,483,647."),
        ("top_p", "many", "Top p must be a number from 0 to 1."),
    ],
)
def test_a_wrong_number_gets_a_sentence_and_nothing_changes(
    qtbot: QtBot,
    theme: Theme,  # noqa: ARG001
    name: str,
    text: str,
    sentence: str,
) -> None:
    dialog, chosen = opened(qtbot, ChatOptions())
    dialog.fields[name].setText(text)
    dialog.save.click()
    assert chosen == []
    assert dialog.problem.text() == sentence
    assert dialog.isVisible()


def test_the_window_keeps_the_options_with_the_chat(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    dialog = window.room.open_options()
    dialog.prompt.setPlainText("Be brief.")
    dialog.save.click()
    assert window.chats.current.options.system_prompt == "Be brief."
    window.chats.new()
    assert window.chats.current.options.system_prompt == ""
