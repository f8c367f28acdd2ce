"""Unfinished downloads are told, and deleted after a second click."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

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
