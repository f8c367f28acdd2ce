"""`mirror-sd pairs`: the known pairs, what they need, what is on disk, what can be run here and why not."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from core.cli.common import print_problem, table
from core.cli.hub_options import hub_settings, user_settings
from core.pairs.catalog import load_catalog
from core.pairs.found import found_models
from core.pairs.listing import PairRow, list_pairs
from core.pairs.memory import MemoryLimits
from core.units import size

_HEADER = ("PAIR", "DOWNLOAD", "MEMORY", "STATE", "")


def add_command(commands: Any) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = commands.add_parser("pairs", help="show the known pairs, and which run here")
    parser.add_argument("--json", action="store_true", help="write every pair as a line of JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table or the lines; always 0, as a catalog that cannot be used leaves the built-in one."""
    loaded = load_catalog()
    if loaded.problem is not None:
        print_problem(loaded.problem)
    settings = user_settings()
    found = found_models(cache=hub_settings(known=settings).cache_dir)
    rows = list_pairs(loaded.catalog, found, limits=MemoryLimits.of(settings))
    for line in map(_json_line, rows) if arguments.json else _screen(rows):
        print(line)
    return 0


def _screen(rows: list[PairRow]) -> Iterator[str]:
    yield from table([_HEADER, *map(_cells, rows)])
    yield ""
    context = _at_default(rows[0]).context
    yield f"Memory at {context:,} tokens of context. Sizes and existence: the hub tells when it is asked."
    best = next((row.id for row in rows if row.recommended), None)
    if best is not None:
        yield f"Recommended for a machine with this much memory: {best}"


def _cells(row: PairRow) -> tuple[str, ...]:
    memory = _at_default(row)
    reasons = (row.problem, *row.compatibility.reasons, "fits" if memory.fits else memory.verdict)
    needed = size(memory.needed_bytes)
    return (row.id, size(row.download_bytes), needed, row.state, next(filter(None, reasons)))


def _at_default(row: PairRow) -> Any:
    return row.usual_memory


def _json_line(row: PairRow) -> str:
    fields = msgspec.to_builtins(row)
    for built, memory in zip(fields["memory"], row.memory, strict=True):
        built |= {"needed_bytes": memory.needed_bytes, "fits": memory.fits}
    fields |= {"event": "pair", "runs": row.compatibility.runs, "fits": _at_default(row).fits}
    return json.dumps(fields, ensure_ascii=False)
