"""Windows with everything around them, on a settings file of the test's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.settings.model import SettingsModel
from app.surroundings import Surroundings
from app.theme import BODY_PX, CODE_PX, Theme
from core.paths import settings_file
from helpers.window import WAIT_MS, OpenWindow


@pytest.fixture
def theme(theme: Theme) -> Iterator[Theme]:
    """In the usual sizes again after each test."""
    yield theme
    theme.set_sizes(BODY_PX, CODE_PX)


@pytest.fixture
def file(home: Path) -> Path:  # noqa: ARG001
    return settings_file()


@pytest.fixture
def stored(file: Path) -> Callable[[], dict[str, object]]:
    """What the file holds now."""
    return lambda: json.loads(file.read_text()) if file.exists() else {}


@pytest.fixture
def open_around(
    open_window: OpenWindow, theme: Theme, file: Path, loop: asyncio.AbstractEventLoop, qtbot: QtBot
) -> Iterator[Callable[..., Surroundings]]:
    """Opens windows with their surroundings: first what the settings file holds, then what `open_window` takes."""
    opened: list[Surroundings] = []

    def open_(values: dict[str, object] | None = None, *options: str, **others: object) -> Surroundings:
        if values is not None:
            file.write_text(json.dumps(values))
        settings = SettingsModel()
        settings.look_again()
        window = open_window(*options, **others)
        opened.append(Surroundings(window, window._engine, settings, theme))
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow)
        return opened[-1]

    yield open_
    for around in opened:
        task = loop.create_task(around.close())
        qtbot.waitUntil(task.done, timeout=WAIT_MS)
        task.result()
