"""Measures what held conversations save: `bench_prefix.py [--target PATH --draft DIR] [--lengths N ...] [--json FILE]`.

Three chats in turns: one, another, and a third with the system prompt of the first.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from core.bench.prefix import prefix_rows
from core.bench.prompts import PROMPTS
from core.bench.rows import markdown_table, report, write_json
from core.cpu_compiler import compiler_environment
from core.engine import BLAS
from core.engine.loader import load_pair_now
from core.pairs import pair_from_paths


def main() -> None:
    """Parse, measure, show, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", metavar="PATH")
    parser.add_argument("--draft", metavar="DIR")
    parser.add_argument("--lengths", type=int, nargs="+", default=[500, 2000], metavar="N", help="of system prompts")
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    os.environ.update(compiler_environment())  # as in a worker
    loaded = load_pair_now(pair_from_paths(arguments.target, arguments.draft))
    rows = prefix_rows(loaded, arguments.lengths, " ".join(PROMPTS), arguments.runs)
    loaded.close()
    result = report(rows, {"blas": BLAS.library, "own kernels": BLAS.own_kernels or "none"})
    print(markdown_table(result.rows))
    print(" | ".join(f"{name}: {value}" for name, value in {**result.machine, **result.versions}.items()))
    if arguments.json:
        write_json(result, arguments.json)


if __name__ == "__main__":
    main()
