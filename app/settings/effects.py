"""What follows from each setting in the window, at the start and at every change."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt

from app.main_window import MainWindow
from app.settings.model import SettingsModel
from app.tasks import Tasks
from app.theme import Theme

READ_WHEN_NEEDED = frozenset({"pair", "kernels_limit_gb", "menu_bar", "notify", "ask_before_quitting"})
"""Settings without an effect of their own here: whoever acts by them reads them then."""


class Effects(QObject):
    """Makes the window, the chat and the engine follow the settings."""

    def __init__(
        self, settings: SettingsModel, window: MainWindow, theme: Theme, parent: QObject | None = None
    ) -> None:
        """`theme` stays as it is until its setting changes: the command line may have named another."""
        super().__init__(parent)
        self._settings = settings
        self._window = window
        self._theme = theme
        self._tasks = Tasks()
        self._engine_is_old = False
        effects: dict[Callable[[], None], tuple[str, ...]] = {
            self._set_scheme: ("theme",),
            self._set_sizes: ("text_px", "code_px"),
            self._set_simple: ("simple",),
            self._set_send_key: ("send_key",),
            self._set_chats: ("system_prompt", "temperature", "max_tokens", "mode"),
            self._end_engine: (
                "kernels_folder",
                "target_threads",
                "draft_threads",
            ),
            self._window.reload_pairs: ("hub_endpoint", "proxy", "offline", "models_folder"),
            self._set_limits: ("context_limit", "prefix_cache_mb"),
        }
        self.effects = {name: effect for effect, names in effects.items() for name in names}
        """By the setting's name."""
        for effect in (self._set_sizes, self._set_simple, self._set_send_key, self._set_chats):
            effect()
        settings.changed.connect(self._on_changed)
        # Queued, so that the chat has settled before the next thing begins.
        window.generation.state_changed.connect(self._on_state, Qt.ConnectionType.QueuedConnection)

    async def close(self) -> None:
        """Give up what is under way."""
        await self._tasks.cancel_all()

    def _on_changed(self, name: str) -> None:
        if name in self.effects:
            self.effects[name]()

    def _set_scheme(self) -> None:
        self._theme.set_scheme(self._settings.values.theme)

    def _set_sizes(self) -> None:
        values = self._settings.values
        self._theme.set_sizes(values.text_px, values.code_px)

    def _set_simple(self) -> None:
        simple = self._settings.values.simple
        self._window.panel.set_simple(simple)
        self._window.mode_selector.set_simple(simple)
        self._window.chats.settings = self._settings.values  # the dialog of a chat's options looks there

    def _set_send_key(self) -> None:
        self._window.composer.set_send_key(self._settings.values.send_key)

    def _set_chats(self) -> None:
        self._window.chats.use_settings(self._settings.values)

    def _set_limits(self) -> None:
        self._window.reload_pairs()
        self._end_engine()

    def _end_engine(self) -> None:
        """The engine process reads its settings at its start. An answer under way ends first."""
        self._engine_is_old = True
        self._on_state()

    def _on_state(self) -> None:
        if self._engine_is_old and not self._window.generation.busy:
            self._engine_is_old = False
            self._window.generation.end_engine()
