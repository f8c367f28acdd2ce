"""The benchmark of the chats' file runs and names its figures."""

from __future__ import annotations

from core.bench.chats import chats_rows


def test_every_figure_is_measured(tmp_path):
    rows = chats_rows(tmp_path / "chats.sqlite3", chats=3, messages=4, runs=2)
    assert all(row.value > 0 for row in rows)
    assert {row.unit for row in rows} == {"ms", "MB"}
    assert [row.name for row in rows if row.name.startswith("search")] != []
