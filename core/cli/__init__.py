"""The terminal commands of `mirror-sd`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from core import __version__
from core.cli import bench, chat, check, doctor, inspect, kernels, pairs, pull, rm
from core.cli.common import EXIT_FAILED, EXIT_INTERRUPTED, print_problem
from core.errors import MirrorError


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(
        prog="mirror-sd",
        description="Chat with a local model that answers faster by speculation, without changing its answers.",
        epilog="Without a command the window opens.",
    )
    parser.add_argument("--version", action="version", version=f"mirror-sd {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (chat, bench, check, pairs, inspect, pull, rm, kernels, doctor):
        command.add_command(commands)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run one command; returns the exit code (1 for an error that was told, 2 for wrong options, 130 for Ctrl+C)."""
    arguments = build_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except MirrorError as error:
        print_problem(error.problem)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code
