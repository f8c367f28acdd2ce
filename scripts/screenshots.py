"""Takes the pictures of the README, with the demo pair answering for real: `screenshots.py OUT_DIR`.

Writes the window (while it answers, complete, with coloured tokens, with several chats), the overlap timeline, the
race, the check, the settings, the picker and the preparation of the pair, each in the light and the dark scheme, in a
home of its own. On a machine without a display, set QT_QPA_PLATFORM=offscreen; QT_SCALE_FACTOR=2 gives pictures of
twice the size.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import qasync
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication, QWidget

from app.check.check_model import CheckState
from app.engine import Engine, PairState
from app.generation import State
from app.main_window import MainWindow
from app.race.race_model import RaceState
from app.settings.model import SettingsModel
from app.surroundings import Surroundings
from app.theme import Scheme, Theme
from core.pairs import demo_pair

PROMPT = "Write a Python function that adds the numbers of a list, with a docstring and an example."
OTHER_PROMPTS = ("Name three colours of the rainbow.", "What is the capital of France?")
RACE_PROMPT = "Write a Python function that reverses a list."
SCHEMES: tuple[Scheme, ...] = ("dark", "light")
SIZE = QSize(1280, 800)
MIDDLE_TOKENS = 80
_FEW_TOKENS = 24
_PICKER = QSize(860, 680)
_TIMEOUT_S = 600.0
_LOOK_S = 0.02
_SETTLE_S = 0.3
_PREPARATION_PERCENT = 30


class Tour:
    """One walk through the window."""

    def __init__(self, folder: Path, theme: Theme) -> None:
        self._folder, self._theme = folder, theme
        engine = Engine()
        self._window = MainWindow(engine, demo_pair)
        self._settings = SettingsModel(parent=self._window)
        self._around = Surroundings(self._window, engine, self._settings, theme)
        self._engine = engine

    async def take(self) -> None:
        """Take all pictures."""
        window = self._window
        window.resize(SIZE)
        window.show()
        await self._save(window, "window-welcome")
        await self._prepare()
        for prompt in OTHER_PROMPTS:
            self._settings.set("max_tokens", _FEW_TOKENS)
            await self._answer(prompt)
        self._settings.reset("max_tokens")
        await self._answer(PROMPT, pictured=True)
        await self._save(window, "window")
        window.transcript.toggle_token_colors()
        await self._save(window, "tokens")
        window.transcript.toggle_token_colors()
        await self._timeline()
        await self._race()
        await self._check()
        await self._others()
        await self._around.close()
        await window.end()
        window.close_now()

    async def _prepare(self) -> None:
        """The pair is loaded for the first time here, in the picker."""
        window = self._window
        window.start()
        window.open_picker()
        picker = window.picker
        assert picker is not None
        picker.resize(_PICKER)
        await _until(lambda: (self._engine.status.percent or 0) >= _PREPARATION_PERCENT)
        await self._save(picker, "preparation")
        await _until(lambda: self._engine.status.state in (PairState.READY, PairState.FAILED))
        await self._save(picker, "picker")
        picker.close()

    async def _answer(self, prompt: str, pictured: bool = False) -> None:
        window = self._window
        window.chats.new()
        window.chats.send(prompt)
        if pictured:
            await _until(lambda: window.panel.rows["draft"].text != "—" and self._tokens() >= MIDDLE_TOKENS)
            await self._save(window, "window-answering", settle_s=0)
        await _until(lambda: window.generation.state is State.IDLE and not window.chats.current.asking)

    def _tokens(self) -> int:
        steps = self._window.figures.shown.record.steps
        return sum(step.tokens for step in steps)

    async def _timeline(self) -> None:
        self._window.panel.open_timeline()
        timeline = self._window.panel.timeline_window
        assert timeline is not None
        timeline.view.timeline.show_latest()
        await self._save(timeline, "overlap")
        timeline.close()

    async def _race(self) -> None:
        tools = self._window.tools
        tools.open_race()
        assert tools.race is not None
        tools.race.prompt.setPlainText(RACE_PROMPT)
        tools.race.tokens.setValue(128)
        tools.race.start.click()
        await _until(lambda: tools._race_model.state is RaceState.DONE)
        tools.race.skip.click()
        await self._save(tools.race, "race")
        tools.race.close()

    async def _check(self) -> None:
        tools = self._window.tools
        tools.open_check()
        assert tools.check is not None
        prompts = self._folder / "prompts.txt"
        prompts.write_text("\n".join(OTHER_PROMPTS), encoding="utf-8")
        tools.check.use_prompts(prompts)
        tools.check.tokens.setValue(_FEW_TOKENS)
        tools.check.start.click()
        await _until(lambda: tools._check_model.state is CheckState.DONE)
        prompts.unlink()
        await self._save(tools.check, "check")
        tools.check.close()

    async def _others(self) -> None:
        self._around.open_settings()
        assert self._around.page is not None
        await self._save(self._around.page, "settings")
        self._around.page.close()
        dialog = self._window.room.open_options()
        await self._save(dialog, "options")
        dialog.close()

    async def _save(self, widget: QWidget, name: str, settle_s: float = _SETTLE_S) -> None:
        """In each scheme; the window's own text cursor may or may not show."""
        for scheme in SCHEMES:
            self._theme.set_scheme(scheme)
            await asyncio.sleep(settle_s)  # what has just been shown or hidden finds its place
            path = self._folder / f"{name}-{scheme}.png"
            if not widget.grab().save(str(path)):
                raise OSError(f"could not write {path}")
            print(path, flush=True)


async def _until(reached: Callable[[], bool]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(_TIMEOUT_S):
        while not reached():
            await asyncio.sleep(_LOOK_S)


def main() -> int:
    """Take the pictures; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="OUT_DIR")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ["MIRROR_SD_HOME"] = home
        app = QApplication(sys.argv[:1])
        app.setQuitOnLastWindowClosed(False)
        theme = Theme(app)
        with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(app)) as runner:
            runner.run(Tour(arguments.folder, theme).take())
    return 0


if __name__ == "__main__":
    sys.exit(main())
