"""Loads what dialogs need before they are opened: hub client and licences take some tenths of a second."""

from __future__ import annotations

import threading
from importlib import import_module

from app.help.licences import licence_texts

_MODULES = ("app.pairs.picker", "app.pairs.picker_model", "app.pairs.sources")


def preload() -> threading.Thread:
    """Load it on a thread of its own, beside the event loop."""
    thread = threading.Thread(target=_load, name="preload", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    for name in _MODULES:
        import_module(name)
    licence_texts()
