"""Measures the chats' file: `bench_chats.py [--chats N] [--messages N] [--json FILE]`.

Fills a file in a temporary folder with made-up chats, then times listing, searching, writing and opening.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from core.bench.chats import chats_rows
from core.bench.rows import markdown_table, report, write_json


def main() -> None:
    """Parse, measure, show, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chats", type=int, default=1000, metavar="N")
    parser.add_argument("--messages", type=int, default=50, metavar="N", help="messages of each chat")
    parser.add_argument("--runs", type=int, default=20, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-chats-") as folder:
        rows = chats_rows(Path(folder) / "chats.sqlite3", arguments.chats, arguments.messages, arguments.runs)
    print(markdown_table(rows))
    if arguments.json:
        write_json(report(rows, {}), arguments.json)


if __name__ == "__main__":
    main()
