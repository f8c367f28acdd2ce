"""Rows: medians, spreads and ratios run by run; the JSON that other programs read."""

from __future__ import annotations

import json

from core.bench.rows import markdown_table, report, row, write_json


def test_a_ratio_is_taken_run_by_run():
    # The machine was twice as slow in the last run, for both alike.
    made = row("ours", "tok/s", [20.0, 22.0, 10.0], [10.0, 11.0, 5.0], "theirs")
    assert (made.value, made.spread, made.ratio_to, made.ratio) == (20.0, (10.0, 22.0), "theirs", 2.0)


def test_the_json_has_machine_versions_and_rows(tmp_path):
    rows = [row("ours", "tok/s", [2.0, 3.0, 4.0], [1.0, 2.0, 3.0], "theirs"), row("alone", "ms", [5.0])]
    write_json(report(rows, {"peer": "1.2"}), tmp_path / "bench.json")
    result = json.loads((tmp_path / "bench.json").read_text())
    assert result.keys() == {"machine", "versions", "rows"}
    assert result["versions"].keys() >= {"mirror-sd", "mlx", "mlx-lm", "peer"}
    assert result["machine"]["chip"]
    assert result["rows"][0] == {
        "name": "ours",
        "value": 3.0,
        "unit": "tok/s",
        "spread": [2.0, 4.0],
        "ratio_to": "theirs",
        "ratio": 1.5,
    }


def test_the_table_shows_a_ratio_only_where_there_is_one():
    table = markdown_table([row("ours", "tok/s", [3.0], [2.0], "theirs"), row("alone", "ms", [5.0])]).splitlines()
    assert table[2] == "| ours | 3 tok/s | 3 to 3 | theirs | 1.50x |"
    assert table[3] == "| alone | 5 ms | 5 to 5 |  |  |"
