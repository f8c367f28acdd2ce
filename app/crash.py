"""What is left of a window that ended unexpectedly: a report, found and told at the next start.

While the window runs, a file of its own says so, and takes Python's traceback should the process crash. It goes away
at a clean end. A report names versions and places in the program; it holds no text of a chat, and the home folder
shows as `~`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import os
import platform
import re
import sys
import traceback
from datetime import datetime
from pathlib import Path
from typing import IO

from app.language import tr
from core import __version__
from core.errors import Problem
from core.paths import state_dir

_MOST_LOG_LINES = 40
_MOST_LOG_BYTES = 64 * 1024
_MOST_REPORTS = 10
_LOG_RECORD = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ (DEBUG|INFO|WARNING|ERROR|CRITICAL) ")


class CrashWatch:
    """One run of the window, from `begin` to `end`. Without `end` the next `begin` of any window reports it."""

    def __init__(self, log_file: Path) -> None:
        """`log_file` is quoted, as it stands at the start."""
        self._folder = state_dir() / "crash"
        self._log_file = log_file
        self._path = self._folder / f"running-{os.getpid()}.txt"
        self._file: IO[str] | None = None

    def begin(self) -> Problem | None:
        """Watch from now on; returns what is to be told of an earlier run that ended unexpectedly.

        Raises `OSError` where the folder does not take files.
        """
        self._folder.mkdir(exist_ok=True)
        reports = [report for path in sorted(self._folder.glob("running-*.txt")) if (report := self._archive(path))]
        self._file = self._path.open("w", encoding="utf-8")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._file.write(_header())
        self._file.flush()
        faulthandler.enable(self._file)
        return self._problem(reports[-1]) if reports else None

    def note(self, error: BaseException) -> None:
        """This exception ends the program. Its message stays out: it may quote anything."""
        if self._file is not None:
            frames = "".join(traceback.format_tb(error.__traceback__))
            self._file.write(f"\n{type(error).__name__} ended the program:\n{frames}")
            self._file.flush()

    def end(self) -> None:
        """The window has ended as it should."""
        if self._file is not None:
            faulthandler.disable()
            self._path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _archive(self, path: Path) -> Path | None:
        """Make a report of a run that does not run any more; None where it does, or another window was faster."""
        with contextlib.suppress(FileNotFoundError), path.open("r+", encoding="utf-8", errors="replace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            about = _without_home(f"{file.read().rstrip()}\n\nThe last lines of the log:\n{self._last_log_lines()}\n")
            report = self._folder / f"ended {datetime.fromtimestamp(path.stat().st_mtime):%Y-%m-%d %H.%M.%S.%f}.txt"
            report.write_text(about, encoding="utf-8")
            path.unlink()
            for old in sorted(self._folder.glob("ended *.txt"))[:-_MOST_REPORTS]:
                old.unlink(missing_ok=True)
            return report
        return None

    def _last_log_lines(self) -> str:
        """The first lines of records alone: what follows them (tracebacks) may quote anything."""
        try:
            with self._log_file.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _MOST_LOG_BYTES))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError as error:
            return f"(The log cannot be read: {type(error).__name__}.)"
        return "\n".join([line for line in lines if _LOG_RECORD.match(line)][-_MOST_LOG_LINES:])

    def _problem(self, report: Path) -> Problem:
        text = report.read_text(encoding="utf-8")
        crashed = "Fatal Python error" in text or "ended the program" in text
        if crashed:
            sentence = tr("Mirror SD ended unexpectedly the last time, because of a defect of the program.")
        else:
            sentence = tr("Mirror SD ended unexpectedly the last time, from outside: killed, or the machine went off.")
        kept = tr("This report is kept as {path}").format(path=_without_home(str(report)))
        return Problem(
            "EndedUnexpectedly",
            sentence,
            tr(
                "The details are what a bug report needs: versions, places in the program, the last lines of the log. "
                "No text of a chat is in them."
            ),
            f"{text.rstrip()}\n\n{kept}",
        )


def _header() -> str:
    from PySide6 import __version__ as qt_version

    return (
        f"Mirror SD {__version__}\nPython {platform.python_version()}, Qt {qt_version}\n{platform.platform()}\n"
        f"started {datetime.now():%Y-%m-%d %H:%M:%S}, {os.path.basename(sys.executable)}\n\n"
    )


def _without_home(text: str) -> str:
    return text.replace(str(Path.home()), "~")
