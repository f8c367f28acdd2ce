"""The log file of the window, with Qt's messages and unexpected exceptions in it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

from core.paths import state_dir

_FILE_BYTES = 1_000_000
_FILES_KEPT = 3
_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}
_log = logging.getLogger(__name__)
_qt_log = logging.getLogger("qt")


def log_file() -> Path:
    """The file that the window logs to."""
    folder = state_dir() / "logs"
    folder.mkdir(exist_ok=True)
    return folder / "window.log"


def set_up(on_exception: Callable[[BaseException], None]) -> None:
    """Log to the file; send Qt's messages there too; log and hand on exceptions that nobody caught."""
    handler = RotatingFileHandler(log_file(), maxBytes=_FILE_BYTES, backupCount=_FILES_KEPT, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    qInstallMessageHandler(_on_qt_message)

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _log.critical("unexpected exception", exc_info=(kind, error, trace))
        sys.__excepthook__(kind, error, trace)
        if isinstance(error, Exception):
            on_exception(error)

    sys.excepthook = hook


def _on_qt_message(kind: QtMsgType, _context: QMessageLogContext, text: str) -> None:
    _qt_log.log(_LEVELS[kind], "%s", text)
