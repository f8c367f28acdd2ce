"""The benchmark of downloads, on a small model: every figure is there, and nothing stays behind."""

from __future__ import annotations

from pathlib import Path

from core.bench.hub import hub_rows
from helpers.fake_hub import FakeHub, Repo


def test_both_downloads_are_measured_in_turns(tmp_path: Path) -> None:
    told: list[str] = []
    with FakeHub({"bench/model": Repo({"config.json": b"{}", "model.safetensors": bytes(3_000_000)})}) as hub:
        rows = {row.name: row for row in hub_rows(hub.url, "bench/model", tmp_path, 2, told.append)}
    assert told == ["run 0 of 2", "run 1 of 2", "run 2 of 2"]
    assert rows["bytes of the model"].value == 3.000002
    assert rows["ours, verified"].ratio_to == "plain client"
    assert rows["ours, verified"].ratio > 0
    assert rows["longest block of the event loop"].value >= rows["longest block of the event loop"].spread[0] > 0
    assert rows["longest block of the event loop, own computing"].value > 0
    assert list(tmp_path.iterdir()) == []
