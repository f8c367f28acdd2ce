"""The measurement of the window's event loop: every figure is there, and nothing stays behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.pairs.blocks import window_rows
from app.theme import Theme
from helpers.fake_hub import FakeHub
from helpers.tiny_pairs import write_catalog


@pytest.mark.qt_log_ignore("This plugin does not support", extend=True)
def test_opening_the_picker_and_a_download_are_measured(
    qapp: QApplication,
    theme: Theme,  # noqa: ARG001
    hub: FakeHub,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "measured"
    folder.mkdir()
    rows = window_rows(qapp, hub.url, "tiny-4bit", write_catalog(tmp_path / "catalog"), folder, 1)
    assert len(rows) == 6
    assert all(row.value > 0 for row in rows)
    assert list(folder.iterdir()) == []
