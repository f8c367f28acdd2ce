"""Pairs in the window: the way from the button to a loaded pair, with a stand-in worker and a hub of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from app.engine import PairState
from app.generation import State
from app.main_window import MainWindow
from app.pairs.last_pair import first_pair, remember
from app.pairs.picker import PairPicker
from app.pairs.sources import PairSources
from core.errors import DemoTargetMissing
from core.pairs import Pair, demo_draft
from helpers.downloads import parts
from helpers.fake_hub import FakeHub, Repo
from helpers.tiny_pairs import DRAFT, TARGET, draft_files, target_files, write_model
from helpers.window import PAIR, WAIT_MS, MakeGeneration, OpenWindow, ask

FIRST = "tiny-4bit"
OTHER = Pair("Other pair", "/nowhere/other", "/nowhere/other-draft")
LONG = " ".join(f"word{number}" for number in range(400))


def until_answered(window: MainWindow, qtbot: QtBot, messages: int) -> None:
    chats = window.chats
    qtbot.waitUntil(lambda: len(chats.current.path) == messages and chats.current.accepts_message, timeout=WAIT_MS)


@pytest.fixture
def on_disk(sources: PairSources) -> PairSources:
    """The tiny pair lies in another program's folder."""
    assert sources.home is not None
    models = sources.home / ".lmstudio" / "models"
    write_model(models / TARGET, target_files())
    write_model(models / DRAFT, draft_files())
    return sources


def opened(window: MainWindow, qtbot: QtBot) -> PairPicker:
    window.open_picker()
    picker = window.picker
    assert picker is not None
    qtbot.waitUntil(lambda: FIRST in picker._cards, timeout=WAIT_MS)
    return picker


def until_loaded(window: MainWindow, qtbot: QtBot, name: str) -> None:
    def loaded() -> bool:
        status = window._engine.status
        return status.state is PairState.READY and status.name == name

    qtbot.waitUntil(loaded, timeout=WAIT_MS)


@pytest.mark.qt_log_ignore("This plugin does not support", extend=True)  # menus, offscreen
def test_the_pair_button_and_a_key_open_the_picker(open_window: OpenWindow, sources: PairSources, qtbot: QtBot) -> None:
    window = open_window(sources=lambda: sources)
    until_loaded(window, qtbot, PAIR.name)
    window.pair_button.click()
    menu = window.pair_button.findChild(QMenu)
    assert menu is not None
    next(action for action in menu.actions() if action.text() == "Choose a pair …").trigger()
    menu.close()
    assert window.picker is not None
    assert window.picker.isVisible()
    window.picker.close()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(window.picker.isVisible)


def test_a_ready_pair_is_loaded_and_the_chat_stays(open_window: OpenWindow, on_disk: PairSources, qtbot: QtBot) -> None:
    window = open_window("--echo", sources=lambda: on_disk)
    until_loaded(window, qtbot, PAIR.name)
    window.chats.send("First")
    qtbot.waitUntil(
        lambda: len(window.chats.current.path) == 2 and window.chats.current.accepts_message, timeout=WAIT_MS
    )
    picker = opened(window, qtbot)
    picker._cards[FIRST].use.click()
    picker._cards[FIRST].load.click()
    assert picker.isVisible()
    until_loaded(window, qtbot, "Tiny 4-bit")
    assert not picker.isVisible(), "the chat is what the pair was chosen for"
    assert len(window.chats.current.path) == 2
    window.chats.send("Second")
    qtbot.waitUntil(
        lambda: len(window.chats.current.path) == 4 and window.chats.current.accepts_message, timeout=WAIT_MS
    )
    assert "First" in window.chats.current.path[3].content
    qtbot.waitUntil(lambda: picker._cards[FIRST].badge.text() == "loaded", timeout=WAIT_MS)
    assert picker._cards[FIRST].use.text() == "Loaded"
    assert not picker._cards[FIRST].use.isEnabled()
    assert first_pair().name == "Tiny 4-bit"  # at the next start


def test_downloads_go_on_while_the_picker_is_closed_and_the_button_shows_them(
    open_window: OpenWindow, sources: PairSources, hub: FakeHub, qtbot: QtBot
) -> None:
    hub.repos[TARGET] = Repo(target_files(3_000_000))
    hub.bytes_per_s = 400_000
    window = open_window(sources=lambda: sources)
    until_loaded(window, qtbot, PAIR.name)
    picker = opened(window, qtbot)
    picker._cards[FIRST].get.click()
    qtbot.waitUntil(picker._cards[FIRST].agree.isVisible, timeout=WAIT_MS)
    picker._cards[FIRST].agree.click()
    picker.close()
    qtbot.waitUntil(lambda: "downloading" in window.pair_button.state_text, timeout=WAIT_MS)
    assert window.pair_button.state_text.startswith("ready  ·  downloading")
    assert "downloading" in window.pair_button.accessibleName()
    assert picker._model.under_way()
    picker._model.pause(FIRST)
    qtbot.waitUntil(lambda: window.pair_button.state_text == "ready  ·  download paused", timeout=WAIT_MS)
    hub.bytes_per_s = 0
    picker._model.resume(FIRST)
    qtbot.waitUntil(lambda: window.pair_button.state_text == "ready", timeout=WAIT_MS)


def test_quitting_pauses_downloads_and_keeps_what_arrived(
    open_window: OpenWindow, sources: PairSources, hub: FakeHub, loop: asyncio.AbstractEventLoop, qtbot: QtBot
) -> None:
    hub.repos[TARGET] = Repo(target_files(3_000_000))
    hub.bytes_per_s = 400_000
    window = open_window(sources=lambda: sources)
    picker = opened(window, qtbot)
    picker._cards[FIRST].get.click()
    qtbot.waitUntil(picker._cards[FIRST].agree.isVisible, timeout=WAIT_MS)
    picker._cards[FIRST].agree.click()
    qtbot.waitUntil(lambda: hub.sent["model.safetensors"] > 400_000, timeout=WAIT_MS)
    window.close()
    assert not picker.isVisible()
    task = loop.create_task(window.end())
    qtbot.waitUntil(task.done, timeout=WAIT_MS)
    task.result()
    assert sum(parts(sources.hub).values()) > 300_000


def test_without_the_demo_model_the_first_run_leads_to_the_picker(
    open_window: OpenWindow, sources: PairSources, qtbot: QtBot
) -> None:
    def none() -> Pair:
        raise DemoTargetMissing("The demo model is not installed.", "Install it with pip.")

    window = open_window(choose_pair=none, sources=lambda: sources)
    qtbot.waitUntil(lambda: window.picker is not None and window.picker.isVisible(), timeout=WAIT_MS)
    picker = window.picker
    assert picker is not None
    assert picker.headline.text() == "Choose a pair to begin"
    qtbot.waitUntil(lambda: "Tiny 4-bit" in picker.advice.text(), timeout=WAIT_MS)
    assert next(iter(picker._model.shown())).row.recommended


def test_the_first_run_names_a_small_download_beside_the_recommended_pair(
    open_window: OpenWindow, sources: PairSources, qtbot: QtBot
) -> None:
    built_in = replace(sources, catalog_folder=None)
    window = open_window(sources=lambda: built_in)
    window.open_picker(first_run=True)
    picker = window.picker
    assert picker is not None
    qtbot.waitUntil(lambda: "For a first try: SmolLM2 135M Q4_1. A first try" in picker.advice.text(), timeout=WAIT_MS)
    picker.open_now()
    assert "first try" not in picker.advice.text()


def test_a_pair_chosen_while_another_loads_takes_its_place(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--load-s", "3")
    generation.load()
    qtbot.waitUntil(lambda: generation._engine.status.stage == "reading the target", timeout=WAIT_MS)
    answering = ask(generation)
    generation.use_pair(OTHER)
    qtbot.waitUntil(lambda: generation._engine.status.name == OTHER.name, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: answering.ending is not None, timeout=WAIT_MS)
    assert generation._engine.status.loaded is not None
    assert generation._engine.status.loaded.pair == OTHER


def test_a_pair_chosen_during_an_answer_is_loaded_after_it(make_generation: MakeGeneration, qtbot: QtBot) -> None:
    generation = make_generation("--answer", "word " * 30, "--steps-per-second", "20")
    answering = ask(generation)
    qtbot.waitUntil(lambda: generation.state is State.ANSWERING, timeout=WAIT_MS)
    generation.use_pair(OTHER)
    assert generation.state is State.ANSWERING
    qtbot.waitUntil(lambda: generation._engine.status.name == OTHER.name, timeout=WAIT_MS)
    assert answering.text.split() == ["word"] * 30
    qtbot.waitUntil(lambda: generation.state is State.IDLE, timeout=WAIT_MS)


@pytest.mark.parametrize("end", ["stop", "fail"])
def test_a_chosen_pair_is_loaded_however_the_answer_ends(
    make_generation: MakeGeneration, qtbot: QtBot, end: str
) -> None:
    crash = ("--die-after-steps", "6") if end == "fail" else ()
    generation = make_generation("--answer", LONG, "--steps-per-second", "20", *crash)
    ask(generation)
    qtbot.waitUntil(lambda: generation.state is State.ANSWERING, timeout=WAIT_MS)
    generation.use_pair(OTHER)
    if end == "stop":
        generation.stop()
    qtbot.waitUntil(lambda: generation._engine.status.name == OTHER.name, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: generation._engine.status.state is PairState.READY, timeout=WAIT_MS)


def nothing(_path: Path) -> None:
    """Leave the file as it is."""


@pytest.mark.parametrize("spoil", [nothing, lambda path: path.write_text("{"), lambda path: path.unlink()])
def test_the_pair_used_last_is_loaded_at_the_next_start_where_it_still_can_be(
    home: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    target = tmp_path / "target.gguf"
    target.touch()
    pair = Pair("Mine", str(target), demo_draft())
    remember(pair)
    spoil(home / "state" / "last-pair.json")
    assert first_pair() == pair if spoil is nothing else first_pair().name != "Mine"
    target.unlink()
    assert first_pair().name != "Mine"
