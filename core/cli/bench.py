"""`mirror-sd bench`: plain against speculative decoding on this machine."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from core.bench.prompts import FEW_PROMPTS
from core.bench.report import bench_rows, bench_table
from core.bench.rows import report, write_json
from core.cli.common import StatusLine, add_pair_options, chosen_pair, engine, events_of, print_problem
from core.errors import MissingFile
from core.pairs import Pair
from core.protocol import Benchmark, BenchmarkDone, Failed, Progress


def add_command(commands: Any) -> None:
    """Register the command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser("bench", help="time plain and speculative decoding in turns")
    add_pair_options(parser)
    parser.add_argument("--width", type=int, metavar="N", help="rows of a verification pass (proposals + 1)")
    parser.add_argument("--max-tokens", type=int, default=64, metavar="N")
    parser.add_argument(
        "--runs", type=int, default=3, metavar="N", help="how often each prompt is decoded in each mode"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table, write the file, and return the exit code. Raises `MissingFile`."""
    pair = chosen_pair(arguments)
    if arguments.json is not None and not arguments.json.absolute().parent.is_dir():
        raise MissingFile(f"There is no folder for the file {arguments.json}.", "Make it first, or choose another.")
    request = Benchmark(pair, FEW_PROMPTS, arguments.max_tokens, arguments.runs, arguments.width)
    with asyncio.Runner() as runner:
        return runner.run(_bench(pair, request, arguments.json))


async def _bench(pair: Pair, request: Benchmark, json_path: Path | None) -> int:
    status = StatusLine()
    async with engine() as client:
        hello = await client.start()
        async for event in events_of(await client.send(request)):
            if isinstance(event, Progress):
                status.progress(event)
            elif isinstance(event, BenchmarkDone):
                status.clear()
                print(f"{pair.name}: {len(request.prompts)} prompts x {request.runs} runs, {request.max_tokens} tokens")
                print(f"MLX {hello.mlx_version} on {hello.device}, BLAS {hello.blas.name}; medians\n")
                print(bench_table(event))
                if json_path is not None:
                    write_json(report(bench_rows(event), {"blas": hello.blas.name}), json_path)
            elif isinstance(event, Failed):
                status.clear()
                print_problem(event.problem)
                return 1
    return 0
