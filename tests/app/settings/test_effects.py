"""Every setting does what it says, at once, in a real window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QTextBrowser
from pytestqt.qtbot import QtBot

from app.chat.code import CodeView
from app.engine import PairState
from app.generation import State
from app.main_window import MainWindow
from app.pairs.last_pair import remember, start_pair
from app.pairs.sources import user_sources
from app.pairs.words import memory_lines
from app.settings.effects import READ_WHEN_NEEDED
from app.surroundings import Surroundings
from app.theme import LIGHT, Theme
from core.pairs import Pair, demo_pair
from core.protocol import Generate, GenerateOptions
from core.settings import DECLARATIONS
from helpers.window import WAIT_MS

OpenAround = Callable[..., Surroundings]
Control = Qt.KeyboardModifier.ControlModifier
ANSWER = "# Title\n\nSome `code` and text.\n\n```python\nprint(1)\nprint(2)\n```\n\nEnd."


def window_of(around: Surroundings, qtbot: QtBot) -> MainWindow:
    window = around._window
    qtbot.waitUntil(lambda: window.pair_button.state_text == "ready", timeout=WAIT_MS)
    return window


def answered(window: MainWindow, qtbot: QtBot, text: str = "Hi") -> str:
    with qtbot.waitSignal(window.generation.answer_ended, timeout=WAIT_MS):
        assert window.chats.send(text)
    qtbot.waitUntil(lambda: window.generation.state is State.IDLE, timeout=WAIT_MS)
    assert window.transcript.answer is not None
    return window.transcript.answer.source


def test_every_setting_has_an_effect_or_is_read_when_needed(open_around: OpenAround) -> None:
    effects = set(open_around()._effects.effects)
    assert effects | READ_WHEN_NEEDED == {declaration.name for declaration in DECLARATIONS}
    assert not effects & READ_WHEN_NEEDED


def test_colours_change_at_once(open_around: OpenAround, theme: Theme) -> None:
    around = open_around()
    assert around._window.palette().color(QPalette.ColorRole.Window) != QColor(LIGHT.window)
    around.settings.set("theme", "light")
    assert around._window.palette().color(QPalette.ColorRole.Window) == QColor(LIGHT.window)
    theme.set_scheme("dark")


def test_text_and_code_grow_at_once_what_is_shown_already_too(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around(None, "--answer", ANSWER, "--steps-per-second", "1000")
    window = window_of(around, qtbot)
    answered(window, qtbot)
    code = window.transcript.findChild(CodeView)
    prose = next(view for view in window.transcript.findChildren(QTextBrowser) if "Title" in view.toPlainText())
    height, code_height = prose.height(), code._text.height()
    muted = window.composer._hint
    around.settings.set("text_px", 28)
    around.settings.set("code_px", 26)
    qtbot.waitUntil(lambda: prose.height() > 1.7 * height and code._text.height() > 1.7 * code_height)
    title = prose.document().firstBlock().begin().fragment().charFormat()  # type: ignore[attr-defined]
    assert title.font().pixelSize() == 40
    assert window.composer.field.fontInfo().pixelSize() == 28
    assert muted.fontInfo().pixelSize() == 24
    assert code._text.fontInfo().pixelSize() == 26
    assert window.panel.speed.sizeHint().width() == 256


def test_keys_change_the_size_of_text_and_code(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around()
    window = around._window
    for key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal, Qt.Key.Key_Minus, Qt.Key.Key_Plus):
        qtbot.keyClick(window, key, Control)
    assert (around.settings.values.text_px, around.settings.values.code_px) == (16, 15)
    around.settings.set("text_px", 40)
    qtbot.keyClick(window, Qt.Key.Key_Plus, Control)
    assert (around.settings.values.text_px, around.settings.values.code_px) == (40, 16)
    assert not window.notice.isVisible()
    qtbot.keyClick(window, Qt.Key.Key_0, Control)
    assert (around.settings.values.text_px, around.settings.values.code_px) == (14, 13)


def test_the_send_key_can_be_control_and_enter(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({"send_key": "ctrl+enter"}, "--echo")
    window = window_of(around, qtbot)
    field = window.composer.field
    qtbot.keyClicks(field, "one")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    qtbot.keyClicks(field, "two")
    assert field.toPlainText() == "one\ntwo"
    qtbot.keyClick(field, Qt.Key.Key_Return, Control)
    assert field.toPlainText() == ""
    qtbot.waitUntil(lambda: window.chats.current.accepts_message and bool(window.chats.current.path), timeout=WAIT_MS)
    around.settings.set("send_key", "enter")
    qtbot.keyClicks(field, "three")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert field.toPlainText() == ""


def test_answers_are_asked_for_with_prompt_temperature_and_length(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({"temperature": 0.5, "max_tokens": 77, "mode": "plain"}, "--echo")
    window = window_of(around, qtbot)
    around.settings.set("system_prompt", "Be brief.")
    sent: list[Generate] = []
    send = window._engine.send

    async def watched(request: Generate) -> object:
        sent.append(request)
        return await send(request)

    window._engine.send = watched  # type: ignore[method-assign, assignment]
    assert answered(window, qtbot).startswith("system: Be brief.")
    assert sent[0].options == GenerateOptions(mode="plain", temperature=0.5, max_tokens=77)
    around.settings.set("system_prompt", "")
    assert answered(window, qtbot, "More").startswith("system: Be brief."), "a chat keeps what it began with"
    window.new_chat.click()
    assert answered(window, qtbot).startswith("user: Hi")


def test_a_new_chat_begins_in_the_mode_of_the_settings(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({"mode": "plain"})
    window = window_of(around, qtbot)
    assert (window.mode_selector.mode, window.chats.current.options.mode) == ("plain", "plain")
    window.mode_selector.choose("auto")
    assert window.chats.current.options.mode == "auto"
    window.new_chat.click()
    assert (window.mode_selector.mode, window.chats.current.options.mode) == ("plain", "plain")
    around.settings.set("mode", "gpu")
    assert (window.mode_selector.mode, window.chats.current.options.mode) == ("gpu", "gpu")


def test_settings_of_the_engine_end_it_when_idle_and_the_next_message_starts_another(
    open_around: OpenAround, qtbot: QtBot
) -> None:
    around = open_around(None, "--answer", "word " * 40, "--steps-per-second", "40")
    window = window_of(around, qtbot)
    before = window._engine.worker_pid
    window.chats.send("Hi")
    qtbot.waitUntil(lambda: window.generation.state is State.ANSWERING, timeout=WAIT_MS)
    with qtbot.waitSignal(window.generation.answer_ended, timeout=WAIT_MS) as ended:
        around.settings.set("target_threads", 1)
        assert window._engine.worker_pid == before
    assert ended.args is not None
    assert ended.args[0].ending.done is not None
    assert len(ended.args[0].text.split()) == 40
    qtbot.waitUntil(lambda: window._engine.worker_pid is None, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window._engine.status.state is PairState.NOT_READY, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window.generation.state is State.IDLE, timeout=WAIT_MS)
    answered(window, qtbot)
    assert window._engine.worker_pid not in (None, before)


def test_the_hub_is_reached_as_the_settings_say(open_around: OpenAround, qtbot: QtBot, tmp_path: Path) -> None:
    around = open_around()
    window = window_of(around, qtbot)
    window.open_picker()
    pairs, picker = window._pairs, window.picker
    assert pairs is not None
    assert picker is not None
    around.settings.set("hub_endpoint", "https://mirror.example.org/")
    around.settings.set("proxy", "http://localhost:3128")
    around.settings.set("models_folder", str(tmp_path / "models"))
    hub = user_sources().hub
    assert (hub.endpoint, hub.proxy) == ("https://mirror.example.org", "http://localhost:3128")
    assert hub.cache_dir == tmp_path / "models"
    qtbot.waitUntil(lambda: pairs._sources.hub == hub, timeout=WAIT_MS)
    assert window.picker is picker
    assert picker.isVisible()


def test_an_open_picker_shows_the_memory_that_the_settings_allow(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around({"prefix_cache_mb": 0})
    window = window_of(around, qtbot)
    window.open_picker()
    pairs = window._pairs
    assert pairs is not None
    qtbot.waitUntil(lambda: not pairs.reading, timeout=WAIT_MS)
    assert "earlier conversations" not in memory_lines(pairs.card("demo"))
    around.settings.set("prefix_cache_mb", 50)
    around.settings.set("context_limit", 1000)
    qtbot.waitUntil(lambda: "for 1,000 tokens of context" in memory_lines(pairs.card("demo")), timeout=WAIT_MS)
    assert "earlier conversations: 50" in memory_lines(pairs.card("demo"))


def test_the_pair_of_the_settings_is_loaded_while_its_files_are_there(home: Path, tmp_path: Path) -> None:  # noqa: ARG001
    (tmp_path / "target").mkdir()
    mine = Pair("Mine", str(tmp_path / "target"), None)
    assert start_pair(mine) == mine
    assert start_pair(msgspec.structs.replace(mine, target="/gone")) == demo_pair()
    remember(mine)
    assert start_pair(None) == mine
    assert start_pair(demo_pair()) == demo_pair()


def test_the_simple_window_hides_what_experts_need_everywhere(open_around: OpenAround, qtbot: QtBot) -> None:
    around = open_around()
    window = window_of(around, qtbot)
    window.panel.setVisible(True)
    for simple in (False, True, False):
        around.settings.set("simple", simple)
        assert window.panel.histogram.isVisibleTo(window.panel) is not simple
        assert window.panel.speed.isVisibleTo(window.panel)
        assert (window.mode_selector.count() == 2) is simple
        dialog = window.room.open_options()
        hidden = {name for name, field in dialog.fields.items() if not field.isVisibleTo(dialog)}
        assert hidden == (set(dialog.fields) - {"temperature"} if simple else set())
        assert dialog.stop.isVisibleTo(dialog) is not simple
        assert dialog.prompt.isVisibleTo(dialog)
        dialog.fields["top_k"].setText("7")
        dialog.save.click()
        assert window.chats.current.options.sampling.top_k == 7  # hidden fields keep what they have
