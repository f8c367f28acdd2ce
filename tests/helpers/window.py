"""What the tests of the window share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from app.generation import Answering, Generation
from app.main_window import MainWindow
from core.pairs import Pair
from core.protocol import ChatMessage, GenerateOptions, Mode

STAND_IN = Path(__file__).parents[1] / "app" / "standin_worker.py"
PAIR = Pair("Test pair", "/nowhere/target.gguf", "/nowhere/draft")
WAIT_MS = 30_000
"""For whatever a child process does: on a busy machine it may take seconds to start."""

OpenWindow = Callable[..., MainWindow]
MakeGeneration = Callable[..., Generation]


def stand_in(*options: str) -> list[str]:
    """The command that starts the stand-in worker."""
    return [sys.executable, str(STAND_IN), *options]


def ask(generation: Generation, text: str = "Hi", mode: Mode = "auto") -> Answering:
    """Have one message answered."""
    answering = Answering((ChatMessage("user", text),), GenerateOptions(mode=mode))
    generation.ask(answering)
    return answering
