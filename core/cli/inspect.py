"""`mirror-sd inspect`: everything about a target, and a draft for it, before anything is loaded or downloaded."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from core.cli.common import EXIT_FAILED, print_problem, table
from core.cli.hub_options import add_hub_options, hub_settings, user_settings
from core.errors import BadRequest
from core.pairs.catalog import load_catalog
from core.pairs.found import found_models
from core.pairs.inspection import Fact, Inspection, inspect
from core.pairs.memory import DEFAULT_CONTEXT, MemoryLimits, MemorySum
from core.units import size

_MARKS = {"ok": "ok", "warning": "note", "failed": "NO", "unknown": "?"}
_LONGEST_CONTEXT = 1 << 24


def add_command(commands: Any) -> None:
    """Register the command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "inspect", help="tell whether a target and a draft fit each other and this machine, without a download"
    )
    parser.add_argument("target", metavar="TARGET", help="a path, a hub id, or a pair of `mirror-sd pairs`")
    parser.add_argument("draft", metavar="DRAFT", nargs="?", help="a path, a hub id, or `demo`")
    parser.add_argument("--context", type=int, metavar="N", help="tokens, for the memory sum")
    add_hub_options(parser)
    parser.add_argument("--json", action="store_true", help="write a line of JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the report; the exit code is 1 where a rule failed. Raises `NotOnThisMachine` and others of `inspect`."""
    context: int = DEFAULT_CONTEXT if arguments.context is None else arguments.context
    if not 1 <= context <= _LONGEST_CONTEXT:
        raise BadRequest(f"The context must lie between 1 and {_LONGEST_CONTEXT:,} tokens.")
    loaded = load_catalog()
    if loaded.problem is not None:
        print_problem(loaded.problem)
    from core.pairs.hub_facts import HubFacts  # its HTTP client is slow to load

    settings = user_settings()
    limits = MemoryLimits.of(settings)
    if arguments.context is not None:
        limits = msgspec.structs.replace(limits, context=0)
    hub = hub_settings(arguments, settings)
    found = found_models(cache=hub.cache_dir)
    remote = None if hub.offline else HubFacts(hub)
    report = inspect(
        arguments.target, arguments.draft, loaded.catalog, found, context=context, limits=limits, remote=remote
    )
    for line in [_json_line(report)] if arguments.json else _screen(report):
        print(line)
    return 0 if report.compatibility.runs else EXIT_FAILED


def _screen(report: Inspection) -> Iterator[str]:
    yield from _facts(report.target)
    if report.draft:
        yield ""
        yield from _facts(report.draft)
    yield ""
    yield from table((_MARKS[v.outcome], v.rule, v.sentence) for v in report.compatibility.verdicts)
    if report.memory is not None:
        yield ""
        yield from _memory(report.memory)
    if report.preparation is not None:
        yield f"Preparing the draft's programs: {report.preparation.words}."
    if not report.draft:
        yield ""
        yield from _fitting(report)


def _facts(facts: tuple[Fact, ...]) -> list[str]:
    return table((fact.what, fact.value) for fact in facts)


def _memory(memory: MemorySum) -> Iterator[str]:
    rows = [(row.what, size(row.bytes), row.how) for row in memory.rows]
    yield from table([*rows, ("sum", size(memory.needed_bytes), f"{memory.context:,} tokens of context")])
    yield memory.verdict + ("" if memory.fits else " It can be loaded anyway: the system may swap, or end it.")


def _fitting(report: Inspection) -> Iterator[str]:
    if not report.fitting:
        yield "No known draft has this target's numbers."
        return
    yield "Known drafts with this target's numbers:"
    for fit in report.fitting:
        made = "made for it" if fit.made_for else "made for another target"
        yield f"  {fit.draft} ({made}{'' if fit.runs else '; cannot be run'})"


def _json_line(report: Inspection) -> str:
    fields = msgspec.to_builtins(report)
    if report.memory is not None:
        fields["memory"] |= {"needed_bytes": report.memory.needed_bytes, "fits": report.memory.fits}
    return json.dumps({"event": "inspection", "runs": report.compatibility.runs, **fields}, ensure_ascii=False)
