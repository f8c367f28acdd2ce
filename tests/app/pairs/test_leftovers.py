"""Unfinished downloads are told, and deleted after a second click."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.pairs.leftovers import Leftovers
from app.pairs.picker import PairPicker
from app.pairs.picker_model import PickerModel
from app.pairs.sources import PairSources
from app.theme import Theme
from helpers.window import WAIT_MS


@pytest.fixture
def beginnings(sources: PairSources) -> list[Path]:
    """One of ours, one of another program."""
    blobs = sources.hub.cache_dir / "models--acme--old" / "blobs"
    blobs.mkdir(parents=True)
    files = [blobs / f"{'a' * 64}.mirror-sd-part", blobs / f"{'b' * 64}.incomplete"]
    for file in files:
        file.write_bytes(bytes(1_500_000))
    return files


@pytest.fixture
def picker(beginnings: list[Path], model: PickerModel, qtbot: QtBot, theme: Theme) -> PairPicker:  # noqa: ARG001
    picker = PairPicker(model)
    qtbot.addWidget(picker)
    picker.open_now()
    qtbot.waitUntil(picker.leftovers.isVisible, timeout=WAIT_MS)
    return picker


def test_they_are_told_with_their_bytes_and_makers(picker: PairPicker) -> None:
    row = picker.leftovers
    assert row.text.text() == "Unfinished downloads: 2, 3.0 MB in all"
    row.show_details.click()
    assert "acme/old: 1.5 MB, by Mirror SD, today" in row.details.text()
    assert "by another program" in row.details.text()


def test_they_are_deleted_after_a_second_click(picker: PairPicker, beginnings: list[Path], qtbot: QtBot) -> None:
    row = picker.leftovers
    row.delete.click()
    assert "1 would go on where they stopped" in row.text.text()
    assert row.agree.text() == "Delete and free 3.0 MB"
    row.keep.click()
    assert row.delete.isVisible()
    assert all(file.exists() for file in beginnings)
    row.delete.click()
    row.agree.click()
    qtbot.waitUntil(lambda: not row.isVisible(), timeout=WAIT_MS)
    assert not any(file.exists() for file in beginnings)


def test_a_look_that_is_under_way_keeps_none_of_them(
    sources: PairSources, beginnings: list[Path], loop: asyncio.AbstractEventLoop, qtbot: QtBot
) -> None:
    """A look holds each one's lock for a moment, and may end after the deletion that was asked for behind it."""
    many = [beginnings[0].with_name(f"{each:064}.incomplete") for each in range(100)]
    leftovers = Leftovers(lambda: sources.hub.cache_dir)
    looks: list[int] = []
    leftovers.changed.connect(lambda: looks.append(len(leftovers.found)))
    for _ in range(10):
        for file in many:
            file.write_bytes(bytes(10))
        looks.clear()
        leftovers.look()
        qtbot.waitUntil(lambda: len(looks) == 1, timeout=WAIT_MS)
        assert looks[0] >= len(many)
        leftovers.look()
        leftovers.remove()
        qtbot.waitUntil(lambda: len(looks) == 3, timeout=WAIT_MS)
        assert not leftovers.found
        assert not any(file.exists() for file in many)
    task = loop.create_task(leftovers.close())
    qtbot.waitUntil(task.done, timeout=WAIT_MS)
