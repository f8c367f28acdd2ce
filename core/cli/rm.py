"""`mirror-sd rm`: models and the leftovers of downloads off the disk."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from core.cli.common import EXIT_FAILED, print_event
from core.cli.hub_options import confirmed, hub_settings
from core.errors import BadRequest
from core.message import Message
from core.units import size

if TYPE_CHECKING:
    from core.hub.leftovers import Leftover, Removal

_DAY_S = 86_400


class Removed(Message, frozen=True):
    """What was removed, for --json."""

    bytes_freed: int


def add_command(commands: Any) -> None:
    """Register the command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "rm",
        help="remove downloaded models, or what downloads left behind",
        description="Shows what would be freed and asks. What other models share stays.",
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="as on the hub: owner/name")
    parser.add_argument("--leftovers", action="store_true", help="unfinished downloads, also those of other programs")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="write lines of JSON; without --yes nothing is removed")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show, ask, remove; returns the exit code."""
    from core.hub import leftovers

    if bool(arguments.models) == arguments.leftovers:
        raise BadRequest("Name the models to remove, or give --leftovers.")
    cache = hub_settings().cache_dir
    models = [leftovers.find_removal(cache, model) for model in arguments.models]
    beginnings = leftovers.find_leftovers(cache) if arguments.leftovers else ()
    _show(models, beginnings, arguments.json)
    freed = sum(each.bytes_freed for each in models) + sum(each.bytes for each in beginnings)
    if not models and not beginnings:
        return 0
    if not confirmed(f"Remove this and free {size(freed)}?", arguments.yes):
        if not arguments.json:
            print("Nothing was removed; --yes removes without asking.")
        return 0 if arguments.json else EXIT_FAILED
    for model in models:
        leftovers.remove_model(cache, model)
    if beginnings:
        freed = leftovers.remove_leftovers(cache, beginnings)
    _tell(freed, arguments.json)
    return 0


def _show(models: list[Removal], beginnings: tuple[Leftover, ...], as_json: bool) -> None:
    if as_json:
        for each in (*models, *beginnings):
            print_event(each)
        return
    for model in models:
        print(f"{size(model.bytes_freed):>10}  {model.repo}  {model.path}")
    for beginning in beginnings:
        days = f"{beginning.age_s / _DAY_S:.0f} days"
        print(f"{size(beginning.bytes):>10}  {beginning.repo}  by {beginning.made_by}, {days} old  {beginning.path}")
    if not models and not beginnings:
        print("There are no leftovers.")


def _tell(freed: int, as_json: bool) -> None:
    if as_json:
        print_event(Removed(freed))
    else:
        print(f"{size(freed)} freed")
