"""The settings as the window holds them: every change is kept at once, and told."""

from __future__ import annotations

from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from core.errors import MirrorError, Problem
from core.paths import settings_file
from core.settings import DECLARATIONS, Settings
from core.settings_file import SettingsFile

_DEFAULTS = Settings()


class SettingsModel(QObject):
    """The settings of this window. Other windows may change the same file: `look_again` takes their changes over."""

    changed = Signal(str)
    """The name of a setting that has another value now."""
    refused = Signal(str, object)
    """The name of a setting that was not kept, and the `Problem`; its value is the one before."""
    problem_met = Signal(object)
    """`Problem` of the file: it is damaged, cannot be read, or holds a bad value."""

    def __init__(self, file: SettingsFile | None = None, parent: QObject | None = None) -> None:
        """Reads nothing yet: see `look_again`."""
        super().__init__(parent)
        self._file = file or SettingsFile(settings_file())
        self._told: tuple[Problem, ...] = ()

    @property
    def values(self) -> Settings:
        """As they stand."""
        return self._file.settings

    def look_again(self) -> None:
        """Read the file, and tell what another program has changed in it, and what is wrong with it."""
        before = self.values
        problems = self._file.load()
        if any(problem.kind == "UnreadableSettings" for problem in problems):
            self._file.settings = before  # a disk that does not answer is no reason to forget what was chosen
        self._tell_changes(before)
        news = [problem for problem in problems if problem not in self._told]
        self._told = problems
        for problem in news:
            self.problem_met.emit(problem)

    def set(self, name: str, value: object) -> None:
        """Change a setting and keep it. What is not allowed or not kept is told by `refused`."""
        before = self.values
        wanted: dict[str, Any] = {name: value}
        try:
            self._file.save(msgspec.structs.replace(before, **wanted))
        except MirrorError as error:
            self.refused.emit(name, error.problem)
            return
        self._tell_changes(before)

    def reset(self, name: str) -> None:
        """Back to the default."""
        self.set(name, getattr(_DEFAULTS, name))

    def is_default(self, name: str) -> bool:
        """Whether the setting has its default."""
        return bool(getattr(self.values, name) == getattr(_DEFAULTS, name))

    def _tell_changes(self, before: Settings) -> None:
        for declaration in DECLARATIONS:
            if getattr(self.values, declaration.name) != getattr(before, declaration.name):
                self.changed.emit(declaration.name)
