"""Measures our download against the hub's plain client, from the tests' own hub at full speed: `bench_hub.py`.

The hub runs in a process of its own. The longest block of the event loop is measured meanwhile, also of the window's
while its picker opens and downloads a pair.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPO = "bench/model"
PAIR = "tiny-4bit"  # of the tests' catalog
CHUNK_BYTES = 1 << 20


def serve(line: Connection, shards: int, shard_bytes: int) -> None:
    """Serve a model until the other end of the line closes."""
    sys.path.insert(0, str(ROOT / "tests"))
    from helpers.fake_hub import FakeHub, Repo
    from helpers.tiny_pairs import repos

    files = {f"model-{i:05}-of-{shards:05}.safetensors": random.Random(i).randbytes(shard_bytes) for i in range(shards)}
    files |= {f"config-{i}.json": random.Random(i).randbytes(2000) for i in range(5)}
    with FakeHub({REPO: Repo(files), **repos(shards * shard_bytes)}, chunk_bytes=CHUNK_BYTES) as hub:
        line.send(hub.url)
        line.poll(None)


def main() -> None:
    """Parse, measure, show, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=4, metavar="N")
    parser.add_argument("--shard-mb", type=int, default=64, metavar="N")
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="holds the caches meanwhile; on the disk to measure")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

    from PySide6.QtWidgets import QApplication

    from app.pairs.blocks import window_rows
    from app.theme import Theme
    from core.bench.hub import hub_rows
    from core.bench.rows import markdown_table, report, write_json

    here, there = get_context("spawn").Pipe()
    hub = get_context("spawn").Process(
        target=serve, args=(there, arguments.shards, arguments.shard_mb * 1_000_000), daemon=True
    )
    hub.start()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder, url = Path(name), here.recv()
        os.environ["MIRROR_SD_HOME"] = str(folder / "home")
        rows = hub_rows(url, REPO, folder, arguments.runs, lambda text: print(text, file=sys.stderr))
        sys.path.insert(0, str(ROOT / "tests"))
        from helpers.tiny_pairs import write_catalog

        app = QApplication(sys.argv[:1])
        app.setQuitOnLastWindowClosed(False)
        Theme(app)
        rows += window_rows(app, url, PAIR, write_catalog(folder / "catalog"), folder, arguments.runs)
    here.send("done")
    hub.join()
    result = report(rows, {})
    print(markdown_table(result.rows))
    print(" | ".join(f"{name}: {value}" for name, value in {**result.machine, **result.versions}.items()))
    if arguments.json:
        write_json(result, arguments.json)


if __name__ == "__main__":
    main()
