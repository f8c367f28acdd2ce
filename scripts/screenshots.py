"""Takes pictures of the window with the demo pair answering: `screenshots.py OUT_DIR`.

Writes `window-SCHEME-answering.png` and `window-SCHEME.png` for the light and the dark scheme, with chats of its own.
On a machine without a display, set QT_QPA_PLATFORM=offscreen; QT_SCALE_FACTOR=2 gives pictures of twice the size.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import qasync
from PySide6.QtWidgets import QApplication

from app.engine import Engine
from app.generation import Generation, State
from app.main_window import MainWindow
from app.theme import Scheme, Theme
from core.pairs import demo_pair

PROMPT = "Write a Python function that adds the numbers of a list, with a docstring and an example."
SIZE = (1280, 800)
MIDDLE_TOKENS = 80
_TIMEOUT_S = 180


async def _until(generation: Generation, *states: State) -> None:
    """Wait until the chat is in one of the states."""
    reached = asyncio.Event()
    connection = generation.state_changed.connect(lambda state: state in states and reached.set())
    if generation.state not in states:
        await asyncio.wait_for(reached.wait(), _TIMEOUT_S)
    generation.disconnect(connection)


async def _take(folder: Path, theme: Theme, prompt: str, chats: Path) -> None:
    window = MainWindow(Engine(), demo_pair, chats=chats)
    window.resize(*SIZE)
    window.show()
    window.start()
    await _until(window.generation, State.IDLE, State.FAILED)
    schemes: tuple[Scheme, ...] = ("dark", "light")
    for scheme in schemes:
        theme.set_scheme(scheme)
        window.chats.new()
        middle, ended = asyncio.Event(), asyncio.Event()
        connection = window.generation.stepped.connect(
            lambda step, middle=middle: step.tokens_so_far >= MIDDLE_TOKENS and middle.set()
        )
        window.chats.answered.connect(lambda _answer, ended=ended: ended.set())
        window.chats.send(prompt)
        waits = [asyncio.create_task(event.wait()) for event in (middle, ended)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=_TIMEOUT_S)
        _save(window, folder / f"window-{scheme}-answering.png")
        await asyncio.wait_for(ended.wait(), _TIMEOUT_S)
        window.generation.disconnect(connection)
        _save(window, folder / f"window-{scheme}.png")
    await window.end()
    window.close_now()


def _save(window: MainWindow, path: Path) -> None:
    if not window.grab().save(str(path)):
        raise OSError(f"could not write {path}")
    print(path)


def main() -> int:
    """Take the pictures; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="OUT_DIR")
    parser.add_argument("--prompt", default=PROMPT)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    app = QApplication(sys.argv[:1])
    app.setQuitOnLastWindowClosed(False)
    theme = Theme(app)
    with (
        tempfile.TemporaryDirectory() as scratch,
        asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(app)) as runner,
    ):
        runner.run(_take(arguments.folder, theme, arguments.prompt, Path(scratch) / "chats.sqlite3"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
