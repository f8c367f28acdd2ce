"""What stands around the window: settings and what follows from them, tray, dialogs, the question before quitting."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QApplication

from app import logs
from app.announcer import Announcer, announce
from app.engine import Engine, PairStatus
from app.generation import Answering, Ending
from app.language import tr
from app.main_window import MainWindow
from app.quit_question import QuitQuestion
from app.settings.effects import Effects
from app.settings.model import SettingsModel
from app.theme import Theme
from app.tray import Tray
from core.errors import Problem
from core.protocol import Hello, Step
from core.settings import is_allowed

if TYPE_CHECKING:
    from app.help.log_viewer import LogViewer
    from app.settings.page import SettingsPage
    from app.settings.storage import StorageModel

_LONG_ANSWER_S = 20.0
_SPEED_EVERY_S = 0.5


class Surroundings(QObject):
    """Made once for a window, before it is shown; `close` before the window goes."""

    def __init__(self, window: MainWindow, engine: Engine, settings: SettingsModel, theme: Theme) -> None:
        super().__init__(window)
        self._window = window
        self._engine = engine
        self.settings = settings
        self._hello: Hello | None = None
        self._began_s = self._speed_shown_s = 0.0
        self.page: SettingsPage | None = None
        self.log_viewer: LogViewer | None = None
        self._storage: StorageModel | None = None
        self._effects = Effects(settings, window, theme, self)
        self.question = QuitQuestion(window, self._would_cut_off)
        window.may_leave = self.question.may_leave
        self.tray = Tray(self)
        self.announcer = Announcer(lambda sentence: announce(window.transcript, sentence))
        self._add_commands()
        self._connect()
        window.installEventFilter(self)
        self.tray.set_shown(settings.values.menu_bar)

    async def close(self) -> None:
        """End what is under way here, and take the icon away."""
        await self._effects.close()
        if self._storage is not None:
            await self._storage.close()
        for dialog in (self.page, self.log_viewer):
            if dialog is not None:
                dialog.close()
        self.tray.close()

    # ------------------------------------------------------------------- dialogs

    def open_settings(self) -> None:
        """Show the page of settings."""
        if self.page is None:
            from app.settings.page import SettingsPage  # these are slow to load
            from app.settings.storage import StorageModel
            from app.settings.storage_section import StorageSection

            self._storage = StorageModel(self.settings, self._engine, self)
            self.page = SettingsPage(self.settings, StorageSection(self._storage), self._window)
        loaded = self._engine.status.loaded
        self.page.offer_pair(loaded.pair if loaded else None)
        self.page.open_now()

    def open_keys(self) -> None:
        """Show the sheet of keys."""
        from app.help.keys import KeySheet

        KeySheet(self._window.commands, self.settings.values.send_key, self._window).show()

    def open_log(self) -> None:
        """Show the log."""
        if self.log_viewer is None:
            from app.help.log_viewer import LogViewer

            self.log_viewer = LogViewer(logs.log_file(), self._window)
        self.log_viewer.show()
        self.log_viewer.activateWindow()

    def open_about(self) -> None:
        """Show what this program is."""
        from app.help.about import About

        About(self._hello, self._window).show()

    def _add_commands(self) -> None:
        add = self._window.commands.add
        settings = add("View", tr("Settings …"), "Ctrl+,", self.open_settings)
        settings.setMenuRole(QAction.MenuRole.PreferencesRole)
        larger = add("View", tr("Larger text"), "Ctrl++", lambda: self._change_size(1))
        larger.setShortcuts([larger.shortcut(), QKeySequence("Ctrl+=")])  # the same key without Shift
        add("View", tr("Smaller text"), "Ctrl+-", lambda: self._change_size(-1))
        add("View", tr("Text of the usual size"), "Ctrl+0", self._reset_size)
        add("Help", tr("Keys"), "F1", self.open_keys)
        add("Help", tr("Log"), "Ctrl+Shift+L", self.open_log)
        about = add("Help", tr("About Mirror SD"), "", self.open_about)
        about.setMenuRole(QAction.MenuRole.AboutRole)

    def _change_size(self, by: int) -> None:
        values = self.settings.values
        for name, size in (("text_px", values.text_px), ("code_px", values.code_px)):
            if is_allowed(name, size + by):
                self.settings.set(name, size + by)

    def _reset_size(self) -> None:
        self.settings.reset("text_px")
        self.settings.reset("code_px")

    # ------------------------------------------------------------------- events

    def _connect(self) -> None:
        window, chat, tray = self._window, self._window.generation, self.tray
        self.settings.problem_met.connect(window.show_problem)
        self.settings.refused.connect(self._on_refused)
        self.settings.changed.connect(self._on_setting)
        self._engine.hello_received.connect(self._on_hello)
        self._engine.status_changed.connect(self._on_status)
        chat.state_changed.connect(lambda _state: self._on_status(self._engine.status))
        chat.answer_started.connect(self._on_answer_started)
        chat.stepped.connect(self._on_step)
        chat.text_added.connect(self.announcer.add)
        chat.answer_ended.connect(self._on_answer_ended)
        tray.show_requested.connect(self._show_window)
        tray.hide_requested.connect(window.hide)
        tray.load_requested.connect(chat.load)
        tray.unload_requested.connect(chat.unload)
        tray.quit_requested.connect(window.close)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Follow the window: another program may have changed the settings while this one was in the background."""
        if event.type() == QEvent.Type.WindowActivate:
            self.settings.look_again()
        elif event.type() in (QEvent.Type.Show, QEvent.Type.Hide):
            self.tray.set_window_shown(self._window.isVisible())
        return super().eventFilter(watched, event)

    def _on_refused(self, _name: str, problem: Problem) -> None:
        if self.page is None or not self.page.isVisible():  # else its row tells
            self._window.show_problem(problem)

    def _on_setting(self, name: str) -> None:
        if name == "menu_bar":
            self.tray.set_shown(self.settings.values.menu_bar)

    def _on_hello(self, hello: Hello) -> None:
        self._hello = hello

    def _on_status(self, status: PairStatus) -> None:
        self.tray.show_status(status, self._window.generation.busy)

    def _on_answer_started(self, _answering: Answering) -> None:
        self._began_s = time.monotonic()
        self.announcer.begin()

    def _on_step(self, step: Step) -> None:
        now_s = time.monotonic()
        if step.elapsed_s > 0 and now_s - self._speed_shown_s >= _SPEED_EVERY_S:
            self._speed_shown_s = now_s
            self.tray.show_speed((step.tokens_so_far - 1) / step.elapsed_s)

    def _on_answer_ended(self, answering: Answering) -> None:
        ending = answering.ending
        assert ending is not None
        self.tray.show_speed(None)
        self._speed_shown_s = 0.0
        self.announcer.end(tr("The answer was interrupted.") if ending.problem else tr("The answer is complete."))
        if time.monotonic() - self._began_s >= _LONG_ANSWER_S:
            self._tell_end(ending)

    def _tell_end(self, ending: Ending) -> None:
        """Where the user is elsewhere. No text of the chat: notifications are kept by systems."""
        if not self.settings.values.notify or QApplication.activeWindow() is not None:
            return
        title = tr("The answer was interrupted") if ending.problem else tr("The answer is complete")
        done = ending.done
        words = tr("{count} tokens, {speed} tok/s")
        text = words.format(count=done.tokens, speed=f"{done.tokens_per_second:.1f}") if done else ""
        if not self.tray.notify(title, text):
            QApplication.alert(self._window)

    def _show_window(self) -> None:
        self._window.setWindowState(self._window.windowState() & ~Qt.WindowState.WindowMinimized)
        self._window.show()
        self._window.activateWindow()

    def _would_cut_off(self) -> bool:
        window = self._window
        is_waited_for = window.generation.current is not None or window.chats.current.asking
        return self.settings.values.ask_before_quitting and is_waited_for
