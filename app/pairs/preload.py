"""Loads what the picker needs before it is opened: its hub client takes some tenths of a second to load."""

from __future__ import annotations

import threading
from importlib import import_module

_MODULES = ("app.pairs.picker", "app.pairs.picker_model", "app.pairs.sources")


def preload() -> threading.Thread:
    """Load it on a thread of its own, beside the event loop."""
    thread = threading.Thread(target=lambda: [import_module(name) for name in _MODULES], name="preload", daemon=True)
    thread.start()
    return thread
