"""Answers of the real engine: their figures, a stop, a kill, and going on."""

from __future__ import annotations

import os
import signal

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTextBrowser
from pytestqt.qtbot import QtBot

from app.generation import State
from app.main_window import MainWindow
from helpers.looks import assert_sound_look

WAIT_MS = 120_000
pytestmark = [pytest.mark.slow]


def ask(window: MainWindow, qtbot: QtBot, text: str) -> None:
    qtbot.keyClicks(window.composer.field, text)
    qtbot.keyClick(window.composer.field, Qt.Key.Key_Return)


def answered(window: MainWindow) -> str:
    return window.transcript.answer.source if window.transcript.answer else ""


def test_two_turns_are_answered_with_true_figures(window: MainWindow, qtbot: QtBot) -> None:
    ask(window, qtbot, "What is the capital of France? Answer in one short sentence.")
    qtbot.waitUntil(lambda: window.generation.state is State.ANSWERING, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window.generation.state is State.IDLE, timeout=WAIT_MS)
    assert "Paris" in answered(window)
    assert window.panel.acceptance.text.endswith("%")
    assert 1.0 <= float(window.panel.per_step.text()) <= 16
    assert float(window.panel.speed.text) > 0
    assert window.panel.speed.mark is not None
    assert window.panel.rows["memory"].text.endswith("B")
    used = window.panel.rows["context"].text
    ask(window, qtbot, "And of Italy?")
    qtbot.waitUntil(lambda: window.generation.state is State.ANSWERING, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window.generation.state is State.IDLE, timeout=WAIT_MS)
    assert answered(window)
    assert window.panel.rows["context"].text != used
    shown = [view.toPlainText() for view in window.transcript.findChildren(QTextBrowser)]
    assert any("Paris" in text for text in shown)
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)


def test_a_kill_in_mid_answer_keeps_the_text_and_the_next_message_works(window: MainWindow, qtbot: QtBot) -> None:
    ask(window, qtbot, "Write a long story about the sea.")
    qtbot.waitUntil(lambda: len(answered(window)) > 20, timeout=WAIT_MS)
    pid = window._engine.worker_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    qtbot.waitUntil(window.notice.isVisible, timeout=WAIT_MS)
    assert "SIGKILL" in window.notice.sentence.text()
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)
    assert len(answered(window)) > 20
    ask(window, qtbot, "Say hello.")
    qtbot.waitUntil(lambda: window.generation.state is State.ANSWERING, timeout=WAIT_MS)
    assert window._engine.worker_pid not in (None, pid)


def test_stop_in_mid_answer_keeps_the_model_loaded(window: MainWindow, qtbot: QtBot) -> None:
    ask(window, qtbot, "Write a long story about the sea.")
    qtbot.waitUntil(lambda: len(answered(window)) > 20, timeout=WAIT_MS)
    pid = window._engine.worker_pid
    window.generation.stop()
    qtbot.waitUntil(lambda: window.generation.state is State.IDLE, timeout=WAIT_MS)
    assert window.pair_button.state_text == "ready"
    assert window._engine.worker_pid == pid
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)


def test_a_stopped_answer_is_continued_where_it_ended(window: MainWindow, qtbot: QtBot) -> None:
    ask(window, qtbot, "Count from one to thirty in words.")
    qtbot.waitUntil(lambda: len(answered(window)) > 20, timeout=WAIT_MS)
    window.chats.stop()
    qtbot.waitUntil(lambda: window.chats.current.accepts_message, timeout=WAIT_MS)
    begun = window.chats.current.path[-1]
    window.room.proceed()
    qtbot.waitUntil(lambda: len(answered(window)) > len(begun.content) + 20, timeout=WAIT_MS)
    window.chats.stop()
    qtbot.waitUntil(lambda: window.chats.current.accepts_message, timeout=WAIT_MS)
    continued = window.chats.current.path[-1]
    assert continued.id == begun.id
    assert continued.content.startswith(begun.content)
    assert continued.content == answered(window)
    assert not continued.content[len(begun.content) :].startswith(begun.content[:10])  # it did not begin anew
    qtbot.waitUntil(lambda: assert_sound_look(window), timeout=WAIT_MS)
