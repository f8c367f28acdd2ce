"""The settings on disk, as JSON.

The file holds only what was changed, and is read anew for every change: what another window or a newer version wrote
in it stays.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from core.errors import BadRequest, Problem, SettingsNotSaved
from core.files import replace_file
from core.lock import held_alone
from core.settings import DECLARATIONS, Settings, is_allowed

log = logging.getLogger("mirror_sd.settings")

_LOCK_TIMEOUT_S = 5.0


class SettingsFile:
    """One program's view of the file. For one thread; other programs may use the same file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.settings = Settings()
        """As last loaded or saved."""

    def load(self) -> tuple[Problem, ...]:
        """Read the file into `settings`. Never fails: each problem says what stands at its default, and why.

        A file that is damaged is set aside under a name with the date.
        """
        self.settings = Settings()
        try:
            stored = _read(self._path)
        except _Damaged:
            return self._load_damaged()
        except OSError as error:
            return (_unread(self._path, "cannot be read", error),)
        self.settings, problems = _understood(stored)
        return problems

    def save(self, settings: Settings) -> Settings:
        """Keep the fields in which `settings` differs from `self.settings`; returns what stands in the file then.

        All else in the file stays as it is, also what another program has changed meanwhile. Raises `BadRequest` for
        a value that is not allowed and `SettingsNotSaved`; the file is unchanged then.
        """
        changes = {
            name: value
            for name, value in msgspec.structs.asdict(settings).items()
            if value != getattr(self.settings, name)
        }
        _check(changes)
        changes = msgspec.to_builtins(changes)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                stored, _ = self._read_or_set_aside()
                stored |= changes
                replace_file(self._path, msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n")
        except OSError as error:
            hint = f"See that the disk has room and that you may write to {self._path}."
            raise SettingsNotSaved("The settings could not be saved.", hint, str(error)) from error
        self.settings, _ = _understood(stored)
        return self.settings

    def _load_damaged(self) -> tuple[Problem, ...]:
        try:
            with self._alone():  # another program may be setting it aside
                stored, problem = self._read_or_set_aside()
        except OSError as error:
            return (_unread(self._path, "is damaged and cannot be set aside", error),)
        self.settings, problems = _understood(stored)
        return problems if problem is None else (problem, *problems)

    def _read_or_set_aside(self) -> tuple[dict[str, Any], Problem | None]:
        """Raises `OSError`."""
        try:
            return _read(self._path), None
        except _Damaged as error:
            return {}, _set_aside(self._path, error)

    def _alone(self) -> AbstractContextManager[None]:
        return held_alone(self._path.with_name(f"{self._path.name}.lock"), _LOCK_TIMEOUT_S)


class _Damaged(Exception):
    """The file is no JSON object."""


def _read(path: Path) -> dict[str, Any]:
    """What the file holds; nothing where there is none. Raises `OSError` and `_Damaged`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Damaged(str(error)) from error


def _understood(stored: dict[str, Any]) -> tuple[Settings, tuple[Problem, ...]]:
    good: dict[str, Any] = {}
    problems: list[Problem] = []
    for declaration in DECLARATIONS:
        if declaration.name not in stored:
            continue
        value = stored[declaration.name]
        if is_allowed(declaration.name, value):
            good[declaration.name] = value
        else:
            sentence = (
                f"The setting “{declaration.label}” is {str(value)[:60]!r}, which is not {declaration.expected}: "
                f"its default ({declaration.default!r}) is used."
            )
            problems.append(Problem("BadSetting", sentence, "Choose another value in the settings.", declaration.name))
    return msgspec.convert(good, Settings), tuple(problems)


def _check(changes: dict[str, Any]) -> None:
    """Raises `BadRequest`."""
    for declaration in DECLARATIONS:
        value = changes.get(declaration.name)
        if declaration.name in changes and not is_allowed(declaration.name, value):
            sentence = f"“{declaration.label}” cannot be {str(value)[:60]!r}: it is {declaration.expected}."
            raise BadRequest(sentence, detail=f"{declaration.name}: {value!r}")


def _set_aside(path: Path, error: _Damaged) -> Problem:
    """Rename the file. Raises `OSError`."""
    kept = path.with_name(f"{path.stem} damaged {datetime.now():%Y-%m-%d %H.%M.%S.%f}{path.suffix}")
    path.rename(kept)
    return Problem(
        "CorruptSettings",
        f"The file with your settings is damaged. It was kept as “{kept.name}”; the defaults are used.",
        "Choose your settings again.",
        f"{path}: {error}",
    )


def _unread(path: Path, what: str, error: OSError) -> Problem:
    return Problem(
        "UnreadableSettings",
        f"The file with your settings {what}; the defaults are used.",
        f"Look at {path}.",
        str(error),
    )


def read_settings(path: Path) -> Settings:
    """The settings as they stand in the file; for programs that neither change them nor tell what is wrong with it."""
    file = SettingsFile(path)
    for problem in file.load():
        log.warning("%s %s", problem.sentence, problem.detail)
    return file.settings
