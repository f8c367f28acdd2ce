"""Every mode that the window offers gives the real model's text, and the statistics follow."""

from __future__ import annotations

import msgspec
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.main_window import MainWindow
from app.pairs.mode_selector import mode_label
from app.stats import words
from app.theme import Colors
from core.chats import Figures
from core.protocol import MODES, Mode
from helpers.chats_window import send, until_answered
from helpers.looks import assert_sound_look
from helpers.window import WAIT_MS

pytestmark = [pytest.mark.slow]
QUESTION = "Write a Python function that adds the numbers of a list."
ROWS = ("verify", "other", "modes", "first_token", "context", "memory", "free", "device", "blas")
"""Those that have a value after any answer."""


def test_every_mode_gives_the_same_text_and_its_figures(window: MainWindow, colors: Colors, qtbot: QtBot) -> None:
    window.chats.use_settings(msgspec.structs.replace(window.chats.settings, max_tokens=32))
    assert offered(window) == set(MODES)
    texts = set()
    for mode in MODES:
        window.chats.new()
        window.mode_selector.choose(mode)
        send(window, qtbot, QUESTION)
        answer = until_answered(window, qtbot)
        texts.add(answer.content)
        assert answer.figures is not None
        see_figures(window, mode, answer.figures)
    assert len(texts) == 1, texts
    see_chat(window, qtbot)
    assert window.panel.grab().toImage().pixelColor(5, 5).name() == colors.panel
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)


def offered(window: MainWindow) -> set[Mode]:
    selector = window.mode_selector
    flags = [selector.model().flags(selector.model().index(row, 0)) for row in range(selector.count())]
    return {mode for mode, each in zip(selector._modes, flags, strict=True) if each & Qt.ItemFlag.ItemIsEnabled}


def see_figures(window: MainWindow, mode: Mode, kept: Figures) -> None:
    """The panel and the chip say of the last answer what was kept with it."""
    panel, figures = window.panel, window.figures.shown.figures()
    assert window.mode_selector.mode == mode
    assert {name: panel.rows[name].text for name in ROWS if panel.rows[name].text in ("", words.MISSING)} == {}
    assert panel.speed.text == words.speed(kept.tokens_per_second)
    proposes = f"{100 * kept.accepted / kept.proposed:.0f} %" if kept.proposed else words.MISSING
    assert panel.acceptance.text == proposes
    if mode != "auto":
        assert kept.mode == mode
        if mode != "lookup":  # its steps without a proposal are plain, and so may be the last one of any mode
            assert panel.rows["modes"].text.startswith(mode_label(mode, window._devices))
    if mode in ("gpu", "ane", "mirror"):
        assert kept.proposed > 0
        assert panel.rows["draft"].text != words.MISSING
        assert figures.speed_up is not None
    if mode == "plain":
        assert kept.proposed == 0
    assert window.verdict.isVisible() == (figures.speed_up is not None or bool(figures.inactive))
    if figures.inactive:
        assert window.verdict.full_text() == words.inactive_text(figures.inactive)
    elif figures.speed_up is not None:
        assert window.verdict.full_text() == words.verdict_text(figures.speed_up)
    if figures.speed_up is not None:
        assert panel.rows["speed_up"].text == f"{figures.speed_up:.2f}x plain decoding"


def see_chat(window: MainWindow, qtbot: QtBot) -> None:
    """Two answers of a chat add up."""
    window.mode_selector.choose("gpu")
    send(window, qtbot, "Explain it.")
    last = until_answered(window, qtbot).figures
    kept = [message.figures for message in window.chats.current.path if message.figures is not None]
    assert len(kept) == 2
    window.panel.of_chat.click()
    assert window.figures.shown.figures("chat").answers == 2
    proposed, accepted = sum(each.proposed for each in kept), sum(each.accepted for each in kept)
    assert window.panel.acceptance.text == f"{100 * accepted / proposed:.0f} %"
    speed = sum(each.timed_tokens for each in kept) / sum(each.decode_s for each in kept)
    assert window.panel.speed.text == words.speed(speed)
    assert window.panel.rows["first_token"].text == words.MISSING
    window.panel.of_answer.click()
    assert last is not None
    assert window.panel.speed.text == words.speed(last.tokens_per_second)
