"""The pair button and the choice of mode."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from app.engine import PairState, PairStatus
from app.pairs.pair_button import PairButton
from app.theme import Theme
from core.errors import Problem
from core.protocol import Loaded
from helpers.window import PAIR

LOADED = Loaded(PAIR, ("plain", "gpu"), (), 16, 2048, 1.5, 20.0)
PROBLEM = Problem("PairMismatch", "The draft was made for another target.", "Choose its own target.")
STATUSES = {
    PairStatus(): ("not ready", "Load"),
    PairStatus(PairState.LOADING, "Test pair", stage="reading the target"): ("loading", "Stop loading"),
    PairStatus(PairState.LOADING, "Test pair", stage="reading the target", percent=40): (
        "loading 40 %",
        "Stop loading",
    ),
    PairStatus(PairState.READY, "Test pair", loaded=LOADED): ("ready", "Free its memory"),
    PairStatus(PairState.FAILED, "Test pair", problem=PROBLEM): (f"failed: {PROBLEM.sentence}", "Load"),
}


@pytest.fixture
def button(qtbot: QtBot, theme: Theme) -> PairButton:  # noqa: ARG001
    button = PairButton()
    qtbot.addWidget(button)
    button.show()
    return button


@pytest.mark.qt_log_ignore("This plugin does not support", extend=True)  # menus, offscreen
@pytest.mark.parametrize("status", STATUSES)
def test_each_state_has_its_words_and_its_action(button: PairButton, qtbot: QtBot, status: PairStatus) -> None:
    text, action = STATUSES[status]
    button.show_status(status)
    assert button.state_text == text
    assert text in button.accessibleName()
    button.click()
    menu = button.findChild(QMenu)
    assert menu is not None
    last = menu.actions()[-1]
    assert last.text() == action
    signal = {
        "Load": button.load_requested,
        "Stop loading": button.stop_requested,
        "Free its memory": button.unload_requested,
    }[action]
    with qtbot.waitSignal(signal):
        last.trigger()
    menu.close()


def test_a_failure_tells_reason_and_hint_in_the_tooltip(button: PairButton) -> None:
    button.show_status(PairStatus(PairState.FAILED, "Test pair", problem=PROBLEM))
    assert PROBLEM.sentence in button.toolTip()
    assert PROBLEM.hint in button.toolTip()


def test_a_long_reason_does_not_widen_the_button_beyond_measure(button: PairButton) -> None:
    button.show_status(PairStatus(PairState.FAILED, "P" * 80, problem=Problem("X", "reason " * 40)))
    assert button.sizeHint().width() <= 420
    button.resize(button.minimumSizeHint())
    assert button._name.text().endswith("…")
