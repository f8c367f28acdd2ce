"""Measures a pair's modes at several depths of context: `bench_ane_profile.py --q8 --ctx-depths 64 2048 4096`.

Speed, acceptance, times of the draft and of verification, overlap, hits, memory, and how long the draft's programs took
to be prepared. The pair is the demo pair unless `--model` and `--draft` name another.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from core.bench.ane_profile import prepare, profile
from core.bench.ane_profile_report import preparation_line, profile_rows, profile_table, same_text_line
from core.bench.local_models import local_model
from core.bench.rows import report, write_json
from core.cli.common import print_problem
from core.cpu_compiler import compiler_environment
from core.engine import BLAS
from core.engine.loader import load_pair_now
from core.errors import BadRequest, MirrorError
from core.pairs import pair_from_paths
from core.protocol import Mode

PROGRAM_MODES: tuple[Mode, ...] = ("ane", "mirror", "auto")


def main() -> int:
    """Parse, measure, show, write; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", metavar="MODEL", help="target: a GGUF file, a folder, or a hub id that was downloaded before"
    )
    parser.add_argument("--draft", metavar="DRAFT", help="a folder, or a hub id that was downloaded before")
    parser.add_argument("--q8", action="store_true", help="the programs' weights in 8 bits (w8a16) instead of 16")
    parser.add_argument("--skip-ar", action="store_true", help="do not measure plain decoding")
    parser.add_argument("--skip-gpu", action="store_true", help="do not measure mode gpu")
    parser.add_argument(
        "--mode", nargs="+", choices=PROGRAM_MODES, default=["ane", "mirror"], help="modes with programs to measure"
    )
    parser.add_argument(
        "--ctx-depths", type=int, nargs="+", default=[64, 2048, 4096], metavar="N", help="tokens before the answer"
    )
    parser.add_argument(
        "--block-size",
        type=int,
        metavar="N",
        help="rows of a verification; the draft's block if left out, which is most",
    )
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--max-tokens", type=int, default=64, metavar="N", help="of an answer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    arguments = parser.parse_args()
    os.environ.update(compiler_environment())  # as in a worker
    try:
        _measure(arguments)
    except MirrorError as error:
        print_problem(error.problem)
        return 1
    return 0


def _measure(arguments: argparse.Namespace) -> None:
    if arguments.runs < 1 or arguments.max_tokens < 2:
        raise BadRequest("A profile needs at least one run, and answers of two tokens.")
    if "auto" in arguments.mode and not arguments.q8:
        raise BadRequest("Mode auto chooses by costs that were measured with weights in 8 bits.", "Add --q8.")
    target, draft = (None if name is None else local_model(name) for name in (arguments.model, arguments.draft))
    loaded = load_pair_now(pair_from_paths(target, draft))
    rows = loaded.block_size if arguments.block_size is None else arguments.block_size
    if not 2 <= rows <= loaded.block_size:
        raise BadRequest(f"The block size must lie between 2 and {loaded.block_size}, the draft's own, not {rows}.")
    preparation = prepare(loaded, "w8a16" if arguments.q8 else "fp16")
    assert loaded.programs is not None
    left_out = {"plain": arguments.skip_ar, "gpu": arguments.skip_gpu}
    modes: list[Mode] = [mode for mode in ("plain", "gpu") if not left_out[mode]]
    modes += arguments.mode
    results = list(
        profile(
            loaded,
            arguments.ctx_depths,
            modes,
            rows,
            arguments.runs,
            arguments.max_tokens,
            lambda what: print(what, file=sys.stderr),
        )
    )
    about = {
        "blas": BLAS.library,
        "programs run by": loaded.programs.runs_on,
        "precision": preparation.precision,
        "rows a verification": str(rows),
        "tokens an answer": str(arguments.max_tokens),
    }
    result = report(profile_rows(results, preparation), about)
    loaded.close()
    print(f"{loaded.pair.name}, {rows} rows a verification, {arguments.runs} runs of {arguments.max_tokens} tokens\n")
    print(profile_table(results))
    print(f"\n{preparation_line(preparation)}\n{same_text_line(results)}")
    print(" | ".join(f"{name}: {value}" for name, value in {**result.machine, **result.versions}.items()))
    if arguments.json:
        write_json(result, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
