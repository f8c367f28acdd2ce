"""`mirror-sd kernels`: a draft's programs, as packages or prepared and kept."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from core.cli.common import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    StatusLine,
    engine,
    events_of,
    print_event,
    print_problem,
    table,
)
from core.errors import BadRequest
from core.kernel_messages import (
    PRECISIONS,
    BuildKernels,
    CleanKernels,
    CompileKernels,
    KernelEntry,
    KernelList,
    KernelOptions,
    KernelProgress,
    KernelReport,
    KernelRequest,
    KernelsBuilt,
    KernelsCleaned,
    KernelsCompiled,
    KernelsPlaced,
    ListKernels,
    PlaceKernels,
)
from core.pairs import demo_draft
from core.protocol import Event, Failed
from core.units import size

_BAR_CELLS = 16
_STAGES = {
    "hash": "reading the draft",
    "wait": "waiting for another process",
    "quantise": "converting weights of",
    "build": "building",
    "write": "writing",
    "compile": "compiling",
    "seal": "computing checksums",
    "done": "done",
}
_RUNTIMES = {"cpu": "the portable CPU runtime", "coreml": "Core ML"}


def add_command(commands: Any) -> None:
    """Register the command, its own commands and their options."""
    parser: argparse.ArgumentParser = commands.add_parser("kernels", help="prepare a draft's programs, list or remove")
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    build = _action(actions, "build", "write a draft's Core ML packages to a folder", _build_request, draft=True)
    build.add_argument("--out", required=True, metavar="DIR", help="a folder that is empty or does not exist")
    _action(actions, "compile", "prepare a draft's kernels and keep them", _compile_request, draft=True)
    _action(actions, "place", "show where a draft's kernels would run", _place_request, draft=True)
    _action(actions, "list", "show the kernels that are kept", lambda _: ListKernels())
    clean = _action(actions, "clean", "remove kernels that are kept", _clean_request)
    clean.add_argument("keys", nargs="*", metavar="KEY", help="as shown by `kernels list`")
    clean.add_argument("--all", action="store_true", help="remove all")


def _action(
    actions: Any, name: str, text: str, request: Callable[[argparse.Namespace], KernelRequest], draft: bool = False
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text)
    if draft:
        defaults = KernelOptions()
        parser.add_argument("--draft", metavar="DIR", help="a DFlash draft folder; without it the demo draft")
        parser.add_argument("--precision", choices=PRECISIONS, default=defaults.precision)
        parser.add_argument("--width", type=int, default=defaults.width, metavar="N", help="columns of a program")
        parser.add_argument("--context", type=int, default=defaults.context, metavar="N", help="positions of context")
    parser.add_argument("--json", action="store_true", help="write every event as a line of JSON")
    parser.set_defaults(run=lambda arguments: run(request(arguments), arguments.json))
    return parser


def _draft(arguments: argparse.Namespace) -> str:
    return str(Path(arguments.draft or demo_draft()).absolute())


def _options(arguments: argparse.Namespace) -> KernelOptions:
    return KernelOptions(arguments.precision, arguments.width, arguments.context)


def _build_request(arguments: argparse.Namespace) -> KernelRequest:
    return BuildKernels(_draft(arguments), str(Path(arguments.out).absolute()), _options(arguments))


def _compile_request(arguments: argparse.Namespace) -> KernelRequest:
    return CompileKernels(_draft(arguments), _options(arguments))


def _place_request(arguments: argparse.Namespace) -> KernelRequest:
    return PlaceKernels(_draft(arguments), _options(arguments))


def _clean_request(arguments: argparse.Namespace) -> KernelRequest:
    if bool(arguments.keys) == arguments.all:
        raise BadRequest("Name the kernels to remove, or give --all.", "`mirror-sd kernels list` shows their keys.")
    return CleanKernels(None if arguments.all else tuple(arguments.keys))


def run(request: KernelRequest, as_json: bool) -> int:
    """Send the request, show its events and return the exit code."""
    with asyncio.Runner() as runner:
        return runner.run(_run(request, print_event if as_json else _Screen().show))


async def _run(request: KernelRequest, show: Callable[[Event], None]) -> int:
    code = 0
    async with engine() as client:
        async for event in events_of(await client.send(request)):
            show(event)
            if isinstance(event, Failed):
                code = EXIT_INTERRUPTED if event.problem.kind == "Cancelled" else EXIT_FAILED
    return code


class _Screen:
    """Shows events to a reader: progress as a bar on standard error, results as lines."""

    def __init__(self) -> None:
        self._status = StatusLine()

    def show(self, event: Event) -> None:
        if isinstance(event, KernelProgress):
            self._status.show(_progress_line(event))
            return
        self._status.clear()
        match event:
            case Failed():
                print_problem(event.problem)
            case KernelsBuilt():
                for package in event.packages:
                    print(f"{size(package.bytes):>9}  {package.path}")
                print(_report_line(event.report))
            case KernelsCompiled():
                _show_compiled(event)
            case KernelList():
                _show_list(event)
            case KernelsCleaned():
                print(f"{event.removed} removed, {size(event.bytes_freed)} freed")
            case KernelsPlaced():
                _show_placed(event)


def _progress_line(event: KernelProgress) -> str:
    filled = _BAR_CELLS * event.done // max(event.total, 1)
    bar = "#" * filled + "." * (_BAR_CELLS - filled)
    return f"[{bar}] {event.done:>2} of {event.total}  {event.elapsed_s:.1f} s  {_STAGES[event.stage]} {event.program}"


def _show_compiled(event: KernelsCompiled) -> None:
    if event.replaced:
        print(f"Damaged kernels were removed: {event.replaced}", file=sys.stderr)
    entry = event.entry
    how = "ready already" if event.hit else f"prepared in {event.elapsed_s:.1f} s"
    print(f"{entry.key}  {len(entry.programs)} programs, {size(entry.bytes)}, {how}")
    print(entry.path)
    print(_report_line(event.report))


def _report_line(report: KernelReport) -> str:
    worst = max(report.relative_errors.values(), default=0.0)
    line = f"largest relative error of a tensor: {worst:.4f}"
    if report.kept_fp16:
        line += f"; in half precision, as 8 bits would change it too much: {', '.join(report.kept_fp16)}"
    return line


def _show_list(event: KernelList) -> None:
    if not event.entries:
        print(f"There are no prepared kernels in {event.folder}.")
        return
    rows = [("KEY", "SIZE", "FORM", "LAST USED", "DRAFT"), *map(_row, event.entries)]
    for line in table(rows):
        print(line)


def _row(entry: KernelEntry) -> tuple[str, ...]:
    if entry.options is None:
        return (entry.key, size(entry.bytes), "damaged", "", entry.problem)
    form = f"{entry.options.precision}, width {entry.options.width}, context {entry.options.context}"
    used = datetime.fromtimestamp(entry.last_used_s).strftime("%Y-%m-%d %H:%M")
    return (entry.key, size(entry.bytes), form, used, entry.draft)


def _show_placed(event: KernelsPlaced) -> None:
    print(f"Kernels {event.key} run on {_RUNTIMES.get(event.runtime, event.runtime)}.")
    rows = [("PROGRAM", "OPERATIONS", "NEURAL ENGINE", "GPU", "CPU")]
    for p in event.programs:
        rows.append((p.program, str(p.operations), f"{p.neural_engine:.0%}", f"{p.gpu:.0%}", f"{p.cpu:.0%}"))
    for line in table(rows):
        print(line)
