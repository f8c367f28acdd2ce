"""The window: puts the rooms together and connects them to the chat and the engine."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSettings, QSize, Signal
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMainWindow, QMenu, QPushButton, QVBoxLayout, QWidget

from app.chat.composer import Composer
from app.chat.find import FindBar
from app.chat.transcript import Transcript
from app.commands import Commands
from app.engine import Engine, PairState, PairStatus
from app.generation import Answer, Generation, State
from app.model_tools import ModelTools
from app.notice import ProblemNotice
from app.pairs.last_pair import remember
from app.pairs.mode_selector import Devices, ModeSelector
from app.pairs.pair_button import PairButton
from app.stats import words
from app.stats.figures import FiguresModel
from app.stats.panel import StatsPanel
from app.stats.verdict_chip import VerdictChip
from app.theme import COLUMN_WIDTH, GAP
from app.widgets import set_kind
from core.errors import DemoTargetMissing, Problem
from core.pairs import Pair
from core.paths import state_dir
from core.protocol import ChatMessage, Hello, ModeChanged, Prefill, Step

if TYPE_CHECKING:
    from app.pairs.picker import PairPicker
    from app.pairs.picker_model import PickerModel
    from app.pairs.sources import PairSources

_SMALLEST = QSize(900, 600)
_FIRST_SIZE = QSize(1280, 800)
_GEOMETRY, _PANEL_SHOWN = "geometry", "statistics"


class MainWindow(QMainWindow):
    """The window of one chat. Closing it only asks; its owner ends the engine and then calls `close_now`."""

    close_requested = Signal()

    def __init__(
        self, engine: Engine, choose_pair: Callable[[], Pair], sources: Callable[[], PairSources] | None = None
    ) -> None:
        """`choose_pair` names the first pair; `sources` are the picker's, where they are not the user's own."""
        super().__init__()
        self._sources = sources
        self.picker: PairPicker | None = None
        self._pairs: PickerModel | None = None
        self._held_bytes = 0
        self.setWindowTitle("Mirror SD")
        self.setMinimumSize(_SMALLEST)
        self._engine = engine
        self._model = FiguresModel(lambda: self.mode_selector.mode)
        self._devices = Devices()
        self._may_close = False
        self.may_leave: Callable[[], bool] = lambda: True
        """Asked before the window closes; who refuses asks the user and closes it again."""
        self.generation = Generation(engine, choose_pair, self)
        self.pair_button = PairButton()
        self.mode_selector = ModeSelector()
        self.verdict = VerdictChip()
        self.new_chat = _button("New chat", "Begin a new conversation (Ctrl+N)")
        self.panel_toggle = _button("Statistics", "Show or hide the statistics (Ctrl+Shift+S)")
        self.panel_toggle.setCheckable(True)
        self.menu_button = _button("Menu", "Everything the window can do")
        self.commands = Commands(self)
        self.transcript = Transcript()
        self.find_bar = FindBar(self.transcript)
        self.notice = ProblemNotice()
        self.composer = Composer()
        self.panel = StatsPanel()
        self._lay_out()
        self._connect_controls()
        self._connect_engine()
        self._add_commands()
        self._restore_geometry()
        self._show_figures()
        self.composer.setFocus()

    # ------------------------------------------------------------------- layout

    def _lay_out(self) -> None:
        bar = QFrame()
        set_kind(bar, "bar")
        in_bar = QHBoxLayout(bar)
        in_bar.setContentsMargins(16, 10, 16, 10)
        in_bar.setSpacing(GAP)
        for widget in (self.pair_button, self.mode_selector, self.verdict):
            in_bar.addWidget(widget)
        in_bar.addStretch(1)
        in_bar.addWidget(self.new_chat)
        in_bar.addWidget(self.panel_toggle)
        in_bar.addWidget(self.menu_button)

        lower = QWidget()
        in_lower = QVBoxLayout(lower)
        in_lower.setContentsMargins(0, 0, 0, 0)
        in_lower.setSpacing(GAP)
        in_lower.addWidget(self.notice)
        in_lower.addWidget(self.composer)
        lower.setMaximumWidth(COLUMN_WIDTH + 40)
        centred = QHBoxLayout()
        centred.setContentsMargins(16, 0, 16, 16)
        centred.addStretch(1)
        centred.addWidget(lower, 1000)
        centred.addStretch(1)

        chat = QVBoxLayout()
        chat.setSpacing(GAP)
        chat.addWidget(self.transcript, 1)
        chat.addLayout(centred)
        below = QHBoxLayout()
        below.setSpacing(0)
        below.addLayout(chat, 1)
        below.addWidget(self.panel)
        central = QWidget()
        everything = QVBoxLayout(central)
        everything.setContentsMargins(0, 0, 0, 0)
        everything.setSpacing(0)
        everything.addWidget(bar)
        everything.addLayout(below, 1)
        self.setCentralWidget(central)
        order = (self.composer.field, self.composer.button, self.pair_button, self.mode_selector, self.new_chat)
        for before, after in itertools.pairwise((*order, self.panel_toggle, self.menu_button)):
            self.setTabOrder(before, after)

    def _connect_controls(self) -> None:
        chat = self.generation
        self.pair_button.load_requested.connect(chat.load)
        self.pair_button.stop_requested.connect(chat.stop)
        self.pair_button.unload_requested.connect(chat.unload)
        self.pair_button.choice_requested.connect(self.open_picker)
        self.mode_selector.mode_chosen.connect(chat.set_mode)
        self.new_chat.clicked.connect(chat.clear)
        self.panel_toggle.toggled.connect(self.panel.setVisible)
        self.panel.scope_changed.connect(self._show_figures)
        self.panel.problem_met.connect(self.show_problem)
        self.composer.submitted.connect(chat.send)
        self.composer.stop_requested.connect(chat.stop)
        self.transcript.suggestion_chosen.connect(chat.send)
        self.notice.retry_requested.connect(chat.retry)

    def _connect_engine(self) -> None:
        chat = self.generation
        chat.state_changed.connect(self._on_state)
        chat.message_added.connect(self._on_message)
        chat.answer_started.connect(self._on_answer_started)
        chat.prefilled.connect(self._on_prefill)
        chat.stepped.connect(self._on_step)
        chat.text_added.connect(self._on_text)
        chat.thinking_added.connect(self._on_thinking)
        chat.answer_ended.connect(self._on_answer_ended)
        chat.failed.connect(self.show_problem)
        chat.mode_changed.connect(self._on_mode_changed)
        chat.cleared.connect(self._on_cleared)
        self._engine.status_changed.connect(self._on_pair_status)
        self._engine.hello_received.connect(self._on_hello)
        self._engine.memory_changed.connect(self._on_memory)

    def _add_commands(self) -> None:
        add = self.commands.add
        add("Chat", "New chat", "Ctrl+N", self.new_chat.click)
        add("Chat", "Write a message", "Ctrl+L", self.composer.setFocus)
        add("Answer", "Stop", "Esc", self.generation.stop)
        add("Answer", "Copy the answer", "Ctrl+Shift+C", self._copy_answer)
        add("Answer", "Show or hide the thinking", "Ctrl+T", self._toggle_thinking)
        add("Model", "Choose a pair…", "Ctrl+P", self.open_picker)
        add("Model", "Load or unload the pair", "Ctrl+Shift+P", self.pair_button.click)
        add("Model", "Choose the mode", "Ctrl+Shift+M", self.mode_selector.showPopup)
        self.tools = ModelTools(self._engine, self.commands, self)
        add("View", "Statistics", "Ctrl+Shift+S", self.panel_toggle.toggle)
        add("View", "Find in this chat", "Ctrl+F", self.find_bar.open_bar)
        add("View", "Colour tokens", "Ctrl+Shift+K", self.transcript.toggle_token_colors).setCheckable(True)
        add("View", "Jump to the end", "Ctrl+J", self.transcript.scroll_to_end)
        if sys.platform == "darwin":  # not verified on a Mac
            self.commands.fill(self.menuBar())
            self.menu_button.hide()
        else:
            menu = QMenu(self.menu_button)
            self.commands.fill(menu)
            self.menu_button.setMenu(menu)

    # --------------------------------------------------------------- the answer

    def show_problem(self, problem: Problem) -> None:
        """Tell of a problem without stopping anything."""
        self.notice.show_problem(problem, can_retry=self.generation.state is State.FAILED)
        if problem.kind == DemoTargetMissing.__name__:  # there is nothing to chat with yet
            self.open_picker(first_run=True)

    def _on_mode_changed(self, change: ModeChanged) -> None:
        if change.cause == "failure":
            self.show_problem(Problem("ModeChanged", change.reason, "The answer goes on with the draft in MLX."))
        self._model.mode_changed(change)

    def _on_state(self, state: State) -> None:
        self.composer.set_state(state, self.generation.accepts_message)
        if state is not State.FAILED and self.generation.busy:
            self.notice.hide()
        self._show_waiting()

    def _show_waiting(self, progress: str = "") -> None:
        answer = self.transcript.answer
        if answer is None:
            return
        status = self._engine.status
        if self.generation.state is State.LOADING:
            percent = "" if status.percent is None else f" {status.percent} %"
            answer.set_status(f"Loading the pair: {status.stage}{percent}")
        elif self.generation.state is State.PREFILL:
            answer.set_status(f"Reading the prompt{progress}")
        elif self.generation.state is State.STOPPING:
            answer.set_status("Stopping")

    def _on_message(self, message: ChatMessage) -> None:
        self.transcript.add_user_message(message.content)

    def _on_answer_started(self) -> None:
        self.transcript.begin_answer()
        self._model.begin(time.monotonic())
        self.composer.set_state(self.generation.state, self.generation.accepts_message)
        self._show_waiting()
        self._show_figures()

    def _on_prefill(self, prefill: Prefill) -> None:
        self._show_waiting(f" {round(100 * prefill.done / prefill.total)} %" if prefill.total else "")

    def _on_step(self, step: Step) -> None:
        self._model.step(step, time.monotonic())
        if self.transcript.answer is not None:
            self.transcript.answer.add_step(step)
        self._show_figures()

    def _on_text(self, text: str) -> None:
        if self.transcript.answer is not None:
            self.transcript.answer.append(text)

    def _on_thinking(self, text: str) -> None:
        if self.transcript.answer is not None:
            self.transcript.answer.append_thinking(text)

    def _on_answer_ended(self, answer: Answer) -> None:
        figures, problem = "", ""
        if answer.done is not None:
            self._model.done(answer.done)
            figures = words.answer_line(answer.done)
        elif answer.problem is not None:
            problem = f"Interrupted: {answer.problem.sentence}"
        else:
            figures = "Stopped before the answer was complete."
        if self.transcript.answer is not None:
            self.transcript.answer.finish(figures, problem)
        self._show_figures()

    def _on_cleared(self) -> None:
        self.transcript.clear()
        self.notice.hide()
        self._model.reset()
        self._show_figures()
        self.composer.setFocus()

    def _copy_answer(self) -> None:
        if self.transcript.answer is not None:
            self.transcript.answer.copy_markdown()

    def _toggle_thinking(self) -> None:
        if self.transcript.answer is not None and self.transcript.answer.thinking is not None:
            self.transcript.answer.thinking.button.toggle()

    # --------------------------------------------------------------- the engine

    def _on_pair_status(self, status: PairStatus) -> None:
        self.pair_button.show_status(status)
        self._tell_picker()
        if status.loaded is not None:
            self.mode_selector.set_loaded(status.loaded)
            self._set_devices(programs_on=status.loaded.programs_on)
        if status.state is not PairState.LOADING:
            self.panel.show_loaded(status.loaded)
            self._model.loaded(status.loaded, time.monotonic())
            self._show_figures()
        self._show_waiting()

    def _on_hello(self, hello: Hello) -> None:
        self._set_devices(on_gpu="gpu" in hello.device.lower() or "metal" in hello.blas.name.lower())
        self.panel.show_device(hello.device, hello.blas.name)

    def _set_devices(self, **known: Any) -> None:
        self._devices = dataclasses.replace(self._devices, **known)
        self.mode_selector.set_devices(self._devices)
        self.panel.set_devices(self._devices)
        self.tools.set_devices(self._devices)

    def _on_memory(self, rss_bytes: int | None) -> None:
        self._held_bytes = rss_bytes or 0
        self._tell_picker()
        self._model.memory(rss_bytes)
        self._show_figures()

    def _show_figures(self) -> None:
        self.panel.show_figures(self._model.figures(self.panel.scope))
        self.panel.show_record(self._model.record)
        self.verdict.show_figures(self._model.figures())

    # ----------------------------------------------------------------- the pairs

    def open_picker(self, first_run: bool = False) -> None:
        """Show the pairs. `first_run`: there is none to chat with yet."""
        if self.picker is None:
            self.picker = self._make_picker()
        self.picker.open_now(first_run)

    def _make_picker(self) -> PairPicker:
        from app.pairs.picker import PairPicker  # here, since the hub's client is slow to load
        from app.pairs.picker_model import PickerModel
        from app.pairs.sources import user_sources

        model = self._pairs = PickerModel(self._sources or user_sources, self)
        model.pair_chosen.connect(self._use_pair)
        model.downloads_changed.connect(self._show_downloads)
        self._tell_picker()
        picker = PairPicker(model, self)
        picker.preparation.show_status(self._engine.status)
        picker.preparation.stop_wanted.connect(self.generation.stop)
        picker.preparation.retry_wanted.connect(self.generation.retry)
        self._engine.status_changed.connect(picker.preparation.show_status)
        return picker

    async def renew_picker(self) -> None:
        """Pause downloads; the picker is made anew, with the settings as they are then, when it is next opened."""
        picker, pairs, self.picker, self._pairs = self.picker, self._pairs, None, None
        if picker is not None and pairs is not None:
            await pairs.close()
            picker.close()
            picker.deleteLater()
            pairs.deleteLater()
            self._show_downloads()

    def _use_pair(self, pair: Pair, check: bool) -> None:
        self.notice.hide()
        self.generation.use_pair(pair, check=check)
        remember(pair)

    def _tell_picker(self) -> None:
        if self._pairs is not None:
            loaded = self._engine.status.loaded
            self._pairs.held_bytes = self._held_bytes
            self._pairs.set_loaded(loaded.pair if loaded else None)

    def _show_downloads(self) -> None:
        from app.pairs.words import short_progress

        self.pair_button.show_downloads(short_progress(self._pairs.under_way() if self._pairs else ()))

    # ------------------------------------------------------------- open and close

    async def end(self) -> None:
        """Pause downloads, end the answer and the engine process."""
        if self._pairs is not None:
            await self._pairs.close()
        await self.tools.close()
        await self.generation.close()

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """Hide at once; the engine may need a moment to end."""
        if self._may_close:
            event.accept()
            return
        event.ignore()
        if not self.may_leave():
            return
        self._save_geometry()
        if self.picker is not None:
            self.picker.close()
        self.hide()
        self.close_requested.emit()

    def close_now(self) -> None:
        """Close for good."""
        self._may_close = True
        self.close()

    def _settings(self) -> QSettings:
        return QSettings(str(state_dir() / "window.ini"), QSettings.Format.IniFormat)

    def _save_geometry(self) -> None:
        settings = self._settings()
        settings.setValue(_GEOMETRY, self.saveGeometry())
        settings.setValue(_PANEL_SHOWN, self.panel_toggle.isChecked())

    def _restore_geometry(self) -> None:
        settings = self._settings()
        shown = str(settings.value(_PANEL_SHOWN, "true")).lower() == "true"
        self.panel_toggle.setChecked(shown)
        self.panel.setVisible(shown)
        geometry = settings.value(_GEOMETRY)
        if geometry is None or not self.restoreGeometry(geometry):
            available = self.screen().availableGeometry().size()
            self.resize(_FIRST_SIZE.boundedTo(available).expandedTo(_SMALLEST))


def _button(text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tip)
    return button
