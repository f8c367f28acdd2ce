"""Projects decoding on machines that are not here: `simulate.py [--trace FILE] [--json FILE]`.

A cost model replays recorded steps of real answers under stated costs: what it prints is projected, not measured.
`--record FILE` records such a trace with the demo pair, `--check` holds replays against real decoding on this machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from core.bench.machines import MACHINES
from core.bench.prompts import PROMPTS
from core.bench.replay_check import check_replay
from core.bench.rows import Row, report, write_json
from core.bench.simulate import LABEL
from core.bench.simulate_report import (
    check_table,
    checked_rows,
    costs_table,
    projected_rows,
    projection_table,
    scenarios,
    sensitivity_table,
)
from core.bench.trace import KEPT_TRACE, Trace, read_trace, record_trace, write_trace
from core.cli.common import print_problem
from core.cpu_compiler import compiler_environment
from core.engine.loader import LoadedPair, load_pair_now
from core.errors import MirrorError
from core.pairs import pair_from_paths


def main() -> int:
    """Parse, work, show, write; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--trace", type=Path, default=KEPT_TRACE, metavar="FILE", help="that of the demo pair if left out"
    )
    work = parser.add_mutually_exclusive_group()
    work.add_argument("--record", type=Path, metavar="FILE", help="record a trace instead: about a second a token")
    work.add_argument("--check", action="store_true", help="hold replays of the trace against real decoding instead")
    parser.add_argument("--target", metavar="PATH", help="of the pair to record or to check; the demo pair if left out")
    parser.add_argument("--draft", metavar="DIR")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS), metavar="N", help="to record or to check")
    parser.add_argument("--max-tokens", type=int, default=48, metavar="N", help="of a recorded answer")
    parser.add_argument("--rows", type=int, default=4, metavar="N", help="rows of a verification in the check")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    arguments = parser.parse_args()
    try:
        if arguments.record:
            _record(arguments)
        else:
            (_check if arguments.check else _project)(arguments)
    except MirrorError as error:
        print_problem(error.problem)
        return 1
    return 0


def _record(arguments: argparse.Namespace) -> None:
    trace = record_trace(
        _loaded(arguments),
        PROMPTS[: arguments.prompts],
        arguments.max_tokens,
        lambda done: print(f"prompt {done + 1} of {arguments.prompts}", file=sys.stderr),
    )
    write_trace(trace, arguments.record)
    print(f"{arguments.record}: {_described(trace)}")


def _check(arguments: argparse.Namespace) -> None:
    trace = read_trace(arguments.trace)
    checked = check_replay(
        _loaded(arguments), trace, arguments.prompts, arguments.rows, lambda what: print(what, file=sys.stderr)
    )
    print(check_table(checked))
    _write(arguments, checked_rows(checked), {"rows": str(arguments.rows)})


def _project(arguments: argparse.Namespace) -> None:
    trace = read_trace(arguments.trace)
    print(f"Everything below is a {LABEL}: recorded steps, replayed under costs that others have published.")
    print(f"The trace: {_described(trace)}")
    rows = []
    for machine in MACHINES:
        found = scenarios(trace, machine)
        for table in (projection_table(found), costs_table(machine), *map(sensitivity_table, found[1:2])):
            print(f"\n{table}", flush=True)
        rows += projected_rows(found)
    _write(arguments, rows, {"what this is": LABEL})


def _described(trace: Trace) -> str:
    return (
        f"{trace.pair} (draft {trace.draft_sha256[:12]}), {len(trace.prompts)} greedy answers, "
        f"{trace.anchors} tokens at which the draft was asked, blocks of {trace.block}"
    )


def _loaded(arguments: argparse.Namespace) -> LoadedPair:
    os.environ.update(compiler_environment())  # as in a worker
    return load_pair_now(pair_from_paths(arguments.target, arguments.draft))


def _write(arguments: argparse.Namespace, rows: list[Row], about: dict[str, str]) -> None:
    if arguments.json:
        write_json(report(rows, about), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
