"""What several commands share: options that name a pair, the progress line, Ctrl+C as a request to stop."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import msgspec

from core.client import Call, EngineClient
from core.errors import BadRequest, Problem
from core.message import Message
from core.pairs import Pair, pair_by_name, pair_from_paths
from core.protocol import Event, Progress

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    """`--pair`, or `--target` and `--draft`; without them the demo pair is taken."""
    parser.add_argument("--pair", metavar="NAME", help="a pair by its name: demo")
    parser.add_argument("--target", metavar="PATH", help="a GGUF file or a Hugging Face model folder")
    parser.add_argument("--draft", metavar="DIR", help="a DFlash draft folder made for this target")


def chosen_pair(arguments: argparse.Namespace) -> Pair:
    """The pair that the options name. Raises `DemoTargetMissing`, `UnknownPair`, and `BadRequest` for two of them."""
    if arguments.pair is not None:
        if arguments.target or arguments.draft:
            raise BadRequest("The pair is named twice.", "Give --pair alone, or --target and --draft.")
        return pair_by_name(arguments.pair)
    return pair_from_paths(arguments.target, arguments.draft)


class StatusLine:
    """One line on standard error that is written over; nothing where that is no terminal."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, text: str) -> None:
        """Replace the line."""
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False

    def progress(self, event: Progress) -> None:
        """Show a stage of longer work."""
        left = "" if event.left_s is None else f", about {event.left_s:.0f} s left"
        self.show(f"{event.stage} ({event.done + 1} of {event.total}{left})")


@contextlib.asynccontextmanager
async def engine() -> AsyncIterator[EngineClient]:
    """A client whose worker is gone at the end, whatever happened."""
    client = EngineClient("terminal")
    try:
        yield client
    finally:
        await client.close()


@contextlib.contextmanager
def _interrupt_cancels(call: Call) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    cancelling: list[asyncio.Task[None]] = []  # keeps the tasks alive
    loop.add_signal_handler(signal.SIGINT, lambda: cancelling.append(loop.create_task(call.cancel())))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def events_of(call: Call) -> AsyncIterator[Event]:
    """The call's events; Ctrl+C asks the worker to stop, and the last event still comes."""
    with _interrupt_cancels(call):
        async for event in call:
            yield event


def print_problem(problem: Problem) -> None:
    """An error as the terminal shows it: a sentence and a hint, on standard error."""
    print(f"mirror-sd: {problem.sentence}\n  {problem.hint}".rstrip(), file=sys.stderr)


def print_event(event: Message) -> None:
    """One event as a line of JSON: its fields, and its name as `event`."""
    fields: dict[str, Any] = msgspec.to_builtins(event)
    name = str(fields.pop("type")).lower()
    print(json.dumps({"event": name, **fields}, ensure_ascii=False), flush=True)


def table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """The rows as lines with aligned columns."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
