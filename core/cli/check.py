"""`mirror-sd check`: whether a pair's modes give the text of plain decoding on this machine, and how fast."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.bench.prompts import FEW_PROMPTS, read_prompts
from core.check_messages import Check, CheckedPrompt, CheckStarted, Verdict
from core.check_report import figures, heading, mark, notes, verdict_sentence
from core.cli.common import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    StatusLine,
    add_pair_options,
    chosen_pair,
    engine,
    events_of,
    print_event,
    print_problem,
)
from core.protocol import MODES, Event, Failed, Mode, Progress

_EXIT_CODES = (
    "The exit code is 0 where every answer is that of plain decoding, or leaves it at a near-tie: a place where "
    "rounding alone decides between two tokens. It is 1 where an answer differs otherwise or the check failed, and 130 "
    "where it was stopped."
)


def add_command(commands: Any) -> None:
    """Register the command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "check",
        help="compare every mode's answers with those of plain decoding",
        description="Decode prompts plainly and in every mode, and compare the answers token for token.",
        epilog=_EXIT_CODES,
    )
    add_pair_options(parser)
    parser.add_argument("--prompts", type=Path, metavar="FILE", help="one prompt a line, or a JSON list of strings")
    parser.add_argument("--max-tokens", type=int, default=64, metavar="N", help="of each answer")
    parser.add_argument(
        "--mode",
        dest="modes",
        action="append",
        default=[],
        choices=[mode for mode in MODES if mode != "plain"],
        help="compare this one only; may be given again",
    )
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--json", action="store_true", help="write every event as a line of JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check and return the exit code. Raises the errors of `chosen_pair` and `read_prompts`."""
    request = Check(
        pair=chosen_pair(arguments),
        prompts=read_prompts(arguments.prompts) if arguments.prompts else FEW_PROMPTS,
        max_tokens=arguments.max_tokens,
        modes=tuple(arguments.modes),
        temperature=arguments.temperature,
        seed=arguments.seed,
    )
    with asyncio.Runner() as runner:
        return runner.run(_check(request, print_event if arguments.json else _Screen(request).show))


async def _check(request: Check, show: Callable[[Event], None]) -> int:
    code = EXIT_FAILED
    async with engine() as client:
        async for event in events_of(await client.send(request)):
            show(event)
            if isinstance(event, Failed) and event.problem.kind == "Cancelled":
                code = EXIT_INTERRUPTED
            elif isinstance(event, Verdict) and event.lossless:
                code = 0
    return code


class _Screen:
    """Shows a check to a reader: a table that fills in cell by cell, then the figures, then the verdict."""

    def __init__(self, request: Check) -> None:
        self._request = request
        self._status = StatusLine()
        self._modes: tuple[Mode, ...] = ()
        self._notes: list[str] = []

    def show(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case Progress() if not self._modes:
                self._status.progress(event)
            case CheckStarted():
                self._status.clear()
                self._modes = event.modes
                print(heading(self._request, event), flush=True)
            case CheckedPrompt():
                self._add(event)
            case Verdict():
                print("", figures(event), "", *self._notes, verdict_sentence(event), sep="\n")
            case Failed():
                self._status.clear()
                if self._modes:
                    print(flush=True)
                print_problem(event.problem)

    def _add(self, event: CheckedPrompt) -> None:
        first, last = event.mode == self._modes[0], event.mode == self._modes[-1]
        beginning = f"{event.prompt + 1:<6}" if first else ""
        print(f"{beginning}{event.tokens_per_second:>10.1f} {mark(event)}", end="\n" if last else "", flush=True)
        self._notes += notes(event)
