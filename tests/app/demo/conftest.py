"""The window on the real engine and the demo pair, in the dark and in the light scheme."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.main_window import MainWindow
from app.theme import DARK, LIGHT, Colors, Theme
from core.client import worker_command
from core.errors import DemoTargetMissing
from core.pairs import demo_pair
from helpers.chats_window import ready
from helpers.window import OpenWindow

LONGEST_LOAD_MS = 240_000
SIZE = (1280, 800)


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(shared_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One folder for all, since the first load fills it with compiled kernels and measured costs, which takes half a
    minute. Chats, settings and the state of the window are gone before each test.
    """
    for folder in shared_home.iterdir():
        if folder.name != "cache":
            shutil.rmtree(folder)
    monkeypatch.setenv("MIRROR_SD_HOME", str(shared_home))
    return shared_home


@pytest.fixture(params=["dark", "light"], autouse=True)
def colors(request: pytest.FixtureRequest, theme: Theme) -> Colors:
    """Those of the scheme that the test runs in."""
    theme.set_scheme(request.param)
    return DARK if request.param == "dark" else LIGHT


@pytest.fixture
def demo() -> dict[str, Any]:
    """What `open_window` takes for the real worker and the demo pair."""
    try:
        demo_pair()
    except DemoTargetMissing:
        pytest.skip("the demo pair is not installed")
    return {"command": worker_command("window"), "choose_pair": demo_pair}


@pytest.fixture
def window(open_window: OpenWindow, demo: dict[str, Any], colors: Colors, qtbot: QtBot) -> MainWindow:
    """Open, with the pair loaded and an empty chat."""
    window = open_window(**demo)
    window.resize(*SIZE)
    qtbot.waitUntil(lambda: window.pair_button.state_text in ("ready", "failed"), timeout=LONGEST_LOAD_MS)
    ready(window, qtbot)
    assert window.transcript.grab().toImage().pixelColor(2, 2).name() == colors.window
    return window
