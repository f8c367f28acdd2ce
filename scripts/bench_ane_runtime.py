"""Measures a draft's programs on the processor, against MLX and the machine's bounds: `bench_ane_runtime.py`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def main() -> None:
    """Parse, measure, show, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draft", type=Path, metavar="DIR", help="the demo draft if left out")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of the programs and of MLX")
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = str(arguments.threads)  # read when core.engine takes the BLAS

    from core.bench.ane_runtime import runtime_rows
    from core.bench.rows import markdown_table, report, write_json
    from core.cpu_compiler import compiler_environment
    from core.engine import BLAS
    from core.pairs import demo_pair

    os.environ.update(compiler_environment())  # as in a worker
    folder = arguments.draft or Path(demo_pair().draft or "")
    rows = runtime_rows(folder, arguments.threads, arguments.runs, progress=lambda name: print(name, file=sys.stderr))
    result = report(rows, {"blas": BLAS.library, "threads": str(arguments.threads)})
    print(markdown_table(result.rows))
    print(" | ".join(f"{name}: {value}" for name, value in {**result.machine, **result.versions}.items()))
    if arguments.json:
        write_json(result, arguments.json)


if __name__ == "__main__":
    main()
