"""A hub with tiny pairs, and the sources that lead to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.pairs.picker_model import PickerModel
from app.pairs.sources import PairSources
from core.hub.settings import HubSettings
from helpers.downloads import HASTY
from helpers.fake_hub import FakeHub
from helpers.tiny_pairs import repos, write_catalog
from helpers.window import WAIT_MS


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The user's token stays out of it."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    """Has the tiny pairs."""
    with FakeHub(repos()) as running:
        yield running


@pytest.fixture
def sources(hub: FakeHub, tmp_path: Path) -> PairSources:
    """That hub, an empty cache, a home without models, the tiny catalog."""
    settings = HubSettings(endpoint=hub.url, cache=str(tmp_path / "hub-cache"))
    (tmp_path / "user").mkdir()
    return PairSources(settings, tmp_path / "user", write_catalog(tmp_path / "catalog"), HASTY)


@pytest.fixture
def model(qtbot: QtBot, loop: asyncio.AbstractEventLoop, sources: PairSources) -> Iterator[PickerModel]:
    """A picker's model that has read its sources."""
    model = PickerModel(lambda: sources)
    with qtbot.waitSignal(model.listed, timeout=WAIT_MS):
        model.reload()
    yield model
    task = loop.create_task(model.close())
    qtbot.waitUntil(task.done, timeout=WAIT_MS)
    task.result()
