"""The window and its rooms in every size of text: nothing is cut off, nothing overlaps, nothing lies outside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.generation import State
from app.surroundings import Surroundings
from app.theme import Theme
from helpers.looks import assert_sound_look
from helpers.window import WAIT_MS

ANSWER = "Some **prose** with `code`.\n\n```python\nprint('code')\n```\n\nMore words after it. " + "word " * 60
SIZES = [(900, 600), (1280, 800)]
TEXTS_PX = [9, 14, 24, 40]

OpenAround = Callable[..., Surroundings]


@pytest.fixture
def around(open_around: OpenAround, qtbot: QtBot, text_px: int, size: tuple[int, int]) -> Surroundings:
    """A window of a size, with text of a size, and a pair that is ready."""
    values = {"text_px": text_px, "code_px": min(text_px, 40)}
    around = open_around(values, "--answer", ANSWER, "--steps-per-second", "200")
    window = around._window
    window.resize(*size)
    qtbot.waitUntil(lambda: window.pair_button.state_text == "ready", timeout=WAIT_MS)
    assert (window.width(), window.height()) == size
    return around


def settle() -> None:
    for _ in range(5):
        QApplication.processEvents()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("text_px", TEXTS_PX)
def test_an_empty_chat_and_the_columns_beside_it(around: Surroundings) -> None:
    window = around._window
    settle()
    assert_sound_look(window)
    assert window.room.width() >= 0.38 * window.width()
    assert window.panel.width() <= 0.35 * window.width()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("text_px", TEXTS_PX)
def test_an_answer_with_its_figures_and_the_find_bar(around: Surroundings, qtbot: QtBot) -> None:
    window = around._window
    window.chats.send("A question that is long enough to need more than one line in a narrow window")
    qtbot.waitUntil(lambda: window.generation.state is State.ANSWERING, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window.generation.state is State.IDLE and not window.chats.current.asking, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)
    window.room.find_bar.open_bar()
    settle()
    assert_sound_look(window)
    bar = window.room.find_bar
    assert bar.parentWidget() is not None
    assert bar.parentWidget().rect().contains(bar.geometry())


@pytest.mark.parametrize("size", [(900, 600)])
@pytest.mark.parametrize("text_px", TEXTS_PX)
def test_the_rooms_of_their_own(around: Surroundings, qtbot: QtBot) -> None:
    window = around._window
    rooms: list[Callable[[], QWidget | None]] = [
        lambda: (window.tools.open_race(), window.tools.race)[1],
        lambda: (window.tools.open_check(), window.tools.check)[1],
        lambda: (around.open_settings(), around.page)[1],
        window.room.open_options,
    ]
    for open_room in rooms:
        room = open_room()
        assert room is not None
        qtbot.waitUntil(lambda room=room: assert_sound_look(room), timeout=WAIT_MS)  # it may still learn what to show
        room.close()


def test_painted_figures_grow_with_the_text(open_around: OpenAround, theme: Theme) -> None:
    window = open_around()._window
    panel = window.panel
    painted = (
        panel.histogram, panel.step_bar, panel.context_meter, panel.overlap.timeline, panel.overlap.legend,
        panel.speed, window.pair_button._dot,
    )  # fmt: skip
    before = [widget.sizeHint().height() for widget in painted]
    theme.set_sizes(28, 26)
    for widget, height in zip(painted, before, strict=True):
        assert widget.sizeHint().height() >= 1.8 * height, widget
