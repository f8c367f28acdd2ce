"""Measures prompt lookup on summaries and edits: `bench_lookup.py [--target PATH] [--json FILE]`.

`--gemma` takes Gemma 3 270M, which nobody here made, from the packages that `--group gemma` installs.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from core.bench.local_models import gemma_file
from core.bench.lookup import lookup_rows
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
    parser.add_argument("--gemma", action="store_true", help="take Gemma 3 270M as the target")
    parser.add_argument("--max-tokens", type=int, default=120, metavar="N")
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    os.environ.update(compiler_environment())  # as in a worker
    target = str(gemma_file()) if arguments.gemma else arguments.target
    loaded = load_pair_now(pair_from_paths(target, arguments.draft))
    rows = lookup_rows(loaded, arguments.runs, arguments.max_tokens, lambda what: print(what, file=sys.stderr))
    result = report(rows, {"blas": BLAS.library, "own kernels": BLAS.own_kernels or "none"})
    print(f"{loaded.pair.name}\n\n{markdown_table(result.rows)}\n")
    print(" | ".join(f"{name}: {value}" for name, value in {**result.machine, **result.versions}.items()))
    if arguments.json:
        write_json(result, arguments.json)


if __name__ == "__main__":
    main()
