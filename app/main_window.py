"""The window: puts the rooms together and connects them to the chat and the engine."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QCloseEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMainWindow, QVBoxLayout, QWidget

from app import window_state
from app.chat_figures import ChatFigures
from app.chat_room import ChatRoom
from app.chats.controller import Chats
from app.chats.drops import FileDrops
from app.chats.files import ChatFiles
from app.chats.keeper import Keeper
from app.chats.known_pairs import remember_pair
from app.chats.sidebar import Sidebar
from app.commands import Commands
from app.engine import Engine, PairState, PairStatus
from app.generation import Generation, State
from app.language import tr
from app.model_tools import ModelTools
from app.pairs.last_pair import remember
from app.pairs.mode_selector import Devices
from app.stats.panel import StatsPanel
from app.tasks import Tasks
from app.theme import PANEL_WIDTH, SIDEBAR_WIDTH, scaled
from app.top_bar import TopBar
from app.window_commands import add_commands, show_menu
from core.errors import DemoTargetMissing, Problem
from core.pairs import Pair
from core.paths import chats_file
from core.protocol import Heartbeat, Hello, ModeChanged

if TYPE_CHECKING:
    from app.pairs.picker import PairPicker
    from app.pairs.picker_model import PickerModel
    from app.pairs.sources import PairSources

_SIDEBAR_SHARE, _PANEL_SHARE = 0.27, 0.34


class MainWindow(QMainWindow):
    """The window of all chats. Closing it only asks; its owner ends the engine and then calls `close_now`."""

    close_requested = Signal()

    def __init__(
        self,
        engine: Engine,
        choose_pair: Callable[[], Pair],
        sources: Callable[[], PairSources] | None = None,
        chats: Path | None = None,
    ) -> None:
        """`choose_pair` names the first pair; `sources` (of the picker) and `chats` (a file) are the user's own where
        no others are named.
        """
        super().__init__()
        self._sources = sources
        self.picker: PairPicker | None = None
        self._pairs: PickerModel | None = None
        self._held_bytes = 0
        self.setWindowTitle("Mirror SD")
        self.setMinimumSize(window_state.SMALLEST)
        self._engine = engine
        self._devices = Devices()
        self._may_close = False
        self.may_leave: Callable[[], bool] = lambda: True
        """Asked before the window closes; who refuses asks the user and closes it again."""
        self._tasks = Tasks()
        self._remembered_chat: int | None = None
        self.generation = Generation(engine, choose_pair, self)
        self.chats = Chats(Keeper(chats or chats_file()), self.generation, lambda: engine.status.name, self)
        self.figures = ChatFigures(self.chats, self.generation, self)
        self.files = ChatFiles(self.chats, self)
        self.room = ChatRoom(self.chats, self.generation, self.files, lambda: engine.status)
        self.transcript, self.notice, self.composer = self.room.transcript, self.room.notice, self.room.composer
        self.sidebar = Sidebar(self.chats)
        self.new_chat = self.sidebar.new_chat
        bar = self.bar = TopBar()
        self.pair_button, self.mode_selector, self.verdict = bar.pair_button, bar.mode_selector, bar.verdict
        self.sidebar_toggle, self.panel_toggle, self.menu_button = (
            bar.sidebar_toggle, bar.panel_toggle, bar.menu_button,
        )  # fmt: skip
        self.commands = Commands(self)
        self.tools = ModelTools(self._engine, self)
        self.panel = StatsPanel()
        self._lay_out()
        self._connect_controls()
        self._connect_engine()
        add_commands(self)
        show_menu(self)
        window_state.restore(self)
        self._show_figures()
        self.composer.setFocus()

    def start(self) -> None:
        """Load the pair and open the chat that was open last. Call it once the event loop runs."""
        self._remembered_chat = window_state.last_chat()
        self._tasks.start(self.chats.start(self._remembered_chat))
        self.sidebar.model.refresh()
        self.generation.load()

    # ------------------------------------------------------------------- layout

    def _lay_out(self) -> None:
        below = QHBoxLayout()
        below.setSpacing(0)
        below.addWidget(self.sidebar)
        below.addWidget(self.room, 1)
        below.addWidget(self.panel)
        central = QWidget()
        everything = QVBoxLayout(central)
        everything.setContentsMargins(0, 0, 0, 0)
        everything.setSpacing(0)
        everything.addWidget(self.bar)
        everything.addLayout(below, 1)
        self.setCentralWidget(central)
        composer, sidebar = self.composer, self.sidebar
        for before, after in itertools.pairwise(
            (
                composer.field,
                composer.attach,
                composer.button,
                self.sidebar_toggle,
                self.pair_button,
                self.mode_selector,
                self.panel_toggle,
                self.menu_button,
                sidebar.new_chat,
                sidebar.search,
                sidebar.view,
            )
        ):
            self.setTabOrder(before, after)

    def _connect_controls(self) -> None:
        generation, chats = self.generation, self.chats
        self.pair_button.load_requested.connect(generation.load)
        self.pair_button.stop_requested.connect(generation.stop)
        self.pair_button.unload_requested.connect(generation.unload)
        self.pair_button.choice_requested.connect(self.open_picker)
        self.mode_selector.mode_chosen.connect(chats.set_mode)
        self.panel_toggle.toggled.connect(self.panel.setVisible)
        self.panel.scope_changed.connect(self._show_figures)
        self.panel.problem_met.connect(self.show_problem)
        self.sidebar_toggle.toggled.connect(self.sidebar.setVisible)
        self.sidebar.export_requested.connect(self.files.ask_export)
        self.room.pair_wanted.connect(self._use_pair)
        chats.opened.connect(self._on_chat_opened)
        self.figures.changed.connect(self._show_figures)
        self.transcript.bars.figures_requested.connect(self.figures.show_answer)
        chats.options_changed.connect(self._show_mode)
        chats.state_changed.connect(self._show_title)
        FileDrops(self).dropped.connect(self.files.attach)

    def _connect_engine(self) -> None:
        generation = self.generation
        generation.state_changed.connect(self._on_state)
        generation.failed.connect(self._on_failed)
        generation.mode_changed.connect(self._on_mode_changed)
        self._engine.status_changed.connect(self._on_pair_status)
        self._engine.hello_received.connect(self._on_hello)
        self._engine.memory_changed.connect(self._on_memory)

    # ----------------------------------------------------------------- the chats

    def _on_chat_opened(self) -> None:
        self._show_mode()
        self._show_title()
        self.composer.setFocus()

    def _show_mode(self) -> None:
        self.mode_selector.show_mode(self.chats.current.options.mode or self.chats.settings.mode)

    def _show_title(self) -> None:
        chat = self.chats.current.chat
        if self.chats.keeper.is_kept and self.chats.current.chat_id != self._remembered_chat:
            self._remembered_chat = self.chats.current.chat_id
            window_state.remember_chat(self._remembered_chat)
        self.setWindowTitle(f"{chat.title} – Mirror SD" if chat is not None and chat.title else "Mirror SD")

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The columns at the sides take their share."""
        super().resizeEvent(event)
        self._share_width()

    def _share_width(self) -> None:
        """They grow with the text, but leave the chat its room."""
        self.sidebar.setFixedWidth(min(scaled(SIDEBAR_WIDTH), max(SIDEBAR_WIDTH, round(_SIDEBAR_SHARE * self.width()))))
        self.panel.set_room(max(PANEL_WIDTH, round(_PANEL_SHARE * self.width())))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Text may have another size; another window may have changed the chats meanwhile."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._share_width()
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow():
            self.chats.reread()
            self.sidebar.model.refresh()

    # --------------------------------------------------------------- the answer

    def show_problem(self, problem: Problem) -> None:
        """Tell of a problem without stopping anything."""
        self.room.show_problem(problem)

    def _on_failed(self, problem: Problem) -> None:
        self.room.show_problem(problem, can_retry=True)
        if problem.kind == DemoTargetMissing.__name__:  # there is nothing to chat with yet
            self.open_picker(first_run=True)

    def _on_mode_changed(self, change: ModeChanged) -> None:
        if change.cause == "failure":
            self.show_problem(Problem("ModeChanged", change.reason, tr("The answer goes on with the draft in MLX.")))

    def _on_state(self, state: State) -> None:
        if state is State.LOADING:
            self.notice.hide()

    # --------------------------------------------------------------- the engine

    def _on_pair_status(self, status: PairStatus) -> None:
        self.pair_button.show_status(status)
        self._tell_picker()
        if status.loaded is not None:
            self.mode_selector.set_loaded(status.loaded)
            remember_pair(status.loaded.pair)
            self._set_devices(programs_on=status.loaded.programs_on)
        if status.state is not PairState.LOADING:
            self.panel.show_loaded(status.loaded)
            self.figures.set_loaded(status.loaded)
        self.room.show_pair_status(status)

    def _on_hello(self, hello: Hello) -> None:
        self._set_devices(on_gpu="gpu" in hello.device.lower() or "metal" in hello.blas.name.lower())
        self.panel.show_device(hello.device, hello.blas.name)

    def _set_devices(self, **known: Any) -> None:
        self._devices = dataclasses.replace(self._devices, **known)
        self.mode_selector.set_devices(self._devices)
        self.panel.set_devices(self._devices)
        self.tools.set_devices(self._devices)
        if self.picker is not None:
            self.picker.preparation.devices = self._devices

    def _on_memory(self, beat: Heartbeat | None) -> None:
        self._held_bytes = beat.rss_bytes if beat is not None else 0
        self._tell_picker()
        self.figures.set_memory(beat)

    def _show_figures(self) -> None:
        model = self.figures.shown
        self.panel.show_figures(model.figures(self.panel.scope))
        self.panel.show_record(model.record)
        self.verdict.show_figures(model.figures())

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
        picker.preparation.devices = self._devices
        picker.preparation.show_status(self._engine.status)
        picker.preparation.stop_wanted.connect(self.generation.stop)
        picker.preparation.retry_wanted.connect(self.generation.load)
        self._engine.status_changed.connect(picker.preparation.show_status)
        return picker

    def reload_pairs(self) -> None:
        """The settings of the hub or of memory have changed; downloads under way go on as they began."""
        if self._pairs is not None:
            self._pairs.reload()

    def _use_pair(self, pair: Pair, check: bool = False) -> None:
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
        """Pause downloads, keep the chats, end the answers and the engine process."""
        if self._pairs is not None:
            await self._pairs.close()
        await self.tools.close()
        await self.sidebar.close_list()
        await self.files.close()
        await self._tasks.wait_all()
        await self.chats.close()

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """Hide at once; the engine may need a moment to end."""
        if self._may_close:
            event.accept()
            return
        event.ignore()
        if not self.may_leave():
            return
        window_state.save(self)
        if self.picker is not None:
            self.picker.close()
        self.hide()
        self.close_requested.emit()

    def close_now(self) -> None:
        """Close for good."""
        self._may_close = True
        self.close()
