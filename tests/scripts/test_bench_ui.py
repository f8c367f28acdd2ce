"""The benchmark of the window, in small: it runs to its end and gives every figure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_it_measures_frames_opening_and_searches(tmp_path: Path) -> None:
    path = tmp_path / "ui.json"
    options = ["--chars", "4000", "--seconds", "0.3", "--runs", "1", "--chats", "3", "--messages", "2"]
    run = subprocess.run(
        [sys.executable, "scripts/bench_ui.py", *options, "--only", "frames", "open", "search", "--json", str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "| frame, endless paragraph, 99th percentile |" in run.stdout
    rows = {row["name"]: row["value"] for row in json.loads(path.read_text())["rows"]}
    assert {"frame, mixed", "open, endless code", "search: a rare word"} <= rows.keys()
    assert all(value > 0 for value in rows.values())
