"""`mirror-sd pull`: models from the hub into the cache that other programs share."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from core.cli.common import EXIT_FAILED, EXIT_INTERRUPTED, StatusLine, print_event, print_problem
from core.cli.hub_options import add_hub_options, hub_settings
from core.message import Message
from core.pairs.catalog import load_catalog
from core.units import clock, size

if TYPE_CHECKING:
    from core.hub.download import Download
    from core.hub.plan import DownloadPlan, DownloadRequest
    from core.hub.progress import DownloadProgress

_BAR_CELLS = 24


def add_command(commands: Any) -> None:
    """Register the command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "pull",
        help="download models from the hub",
        description="Download models into the cache that other programs share. Ctrl+C keeps what has arrived; the same "
        "command goes on from there.",
    )
    parser.add_argument(
        "models", nargs="+", metavar="MODEL", help="as on the hub (owner/name), or a pair of `mirror-sd pairs`"
    )
    parser.add_argument("--revision", default="main", metavar="NAME", help="a branch, tag or commit")
    parser.add_argument("--file", action="append", metavar="PATTERN", help="only these files, for example '*Q4_0.gguf'")
    parser.add_argument("--plan", action="store_true", help="show what would be downloaded, and download nothing")
    parser.add_argument("--json", action="store_true", help="write every event as a line of JSON")
    add_hub_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Download or plan; returns the exit code."""
    with asyncio.Runner() as runner:
        return runner.run(_plan(arguments) if arguments.plan else _pull(arguments))


def _requests(arguments: argparse.Namespace) -> list[DownloadRequest]:
    from core.hub.plan import MODEL_FILES, DownloadRequest, request_of

    catalog = load_catalog().catalog
    files = tuple(arguments.file) if arguments.file else MODEL_FILES
    requests: list[DownloadRequest] = []
    for model in arguments.models:
        known = catalog.find(model)
        if known is None or model != known[1].id:
            requests.append(DownloadRequest(model, arguments.revision, files))
            continue
        draft, target = known[0].draft, known[1]
        requests.append(request_of(target.repo, target.revision, target.file, target.sha256))
        if draft.repo is not None:
            requests.append(DownloadRequest(draft.repo, draft.revision))
    return requests


async def _plan(arguments: argparse.Namespace) -> int:
    from core.hub.plan import plan_download

    for request in _requests(arguments):
        plan = await plan_download(hub_settings(arguments), request)
        if arguments.json:
            print_event(plan)
            continue
        for planned in plan.files:
            here = "" if planned.bytes_here == 0 else f"  {size(planned.bytes_here)} here"
            print(f"{size(planned.file.bytes):>10}  {planned.file.name}{here}")
        print(plan_line(plan))
    return 0


async def _pull(arguments: argparse.Namespace) -> int:
    from core.hub.queue import DownloadQueue

    show: Callable[[Message], None] = print_event if arguments.json else _Screen().show
    queue = DownloadQueue(hub_settings(arguments))
    downloads = [queue.add(request) for request in _requests(arguments)]
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for download in downloads:
            download.cancel(keep=True)

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        return max([await _follow(download, show) for download in downloads])
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        await queue.close()


async def _follow(download: Download, show: Callable[[Message], None]) -> int:
    """Show a download's plan and course; the exit code."""
    is_planned = False
    async for progress in download.watch():
        if download.plan is not None and not is_planned:
            show(download.plan)
            is_planned = True
        show(progress)
    return {"done": 0, "cancelled": EXIT_INTERRUPTED}.get(progress.state, EXIT_FAILED)


class _Screen:
    """Shows a download to a reader: a bar on standard error, finished files and the folder as lines."""

    def __init__(self) -> None:
        self._status = StatusLine()
        self._told: set[str] = set()

    def show(self, event: Message) -> None:
        from core.hub.plan import DownloadPlan
        from core.hub.progress import DownloadProgress

        if isinstance(event, DownloadPlan):
            self._told = {planned.file.name for planned in event.files if planned.bytes_here == planned.file.bytes}
            self._line(plan_line(event))
        elif isinstance(event, DownloadProgress):
            self._show_progress(event)

    def _show_progress(self, progress: DownloadProgress) -> None:
        for file in progress.files:
            if file.state == "done" and file.name not in self._told:
                self._told.add(file.name)
                self._line(f"{size(file.bytes_total):>10}  {file.name}  verified")
        match progress.state:
            case "done":
                self._line(progress.folder)
            case "cancelled":
                self._line(f"{size(progress.bytes_done)} are kept: the same command goes on from there.")
            case "failed" if progress.problem is not None:
                self._status.clear()
                print_problem(progress.problem)
            case _:
                self._warn(progress)
                self._status.show(progress_line(progress))

    def _warn(self, progress: DownloadProgress) -> None:
        """A pause that nobody asked for is told once, also where there is no terminal."""
        if progress.state == "paused" and progress.problem is not None and progress.problem.sentence not in self._told:
            self._told.add(progress.problem.sentence)
            self._status.clear()
            print_problem(progress.problem)
            print("  It goes on by itself once there is room; Ctrl+C stops it.", file=sys.stderr)

    def _line(self, text: str) -> None:
        self._status.clear()
        print(text, flush=True)


def plan_line(plan: DownloadPlan) -> str:
    """What a download is about to do."""
    here = plan.bytes_total - plan.bytes_to_fetch
    return (
        f"{plan.request.repo} at {plan.commit[:8]}: {len(plan.files)} files, {size(plan.bytes_total)}, "
        f"{size(here)} here; to fetch {size(plan.bytes_to_fetch)}, free after it {size(plan.bytes_free_after)}"
    )


def progress_line(progress: DownloadProgress) -> str:
    """How far a download is: never a rate while nothing arrives."""
    share = progress.bytes_done / progress.bytes_total if progress.bytes_total else 0.0
    filled = int(_BAR_CELLS * share)
    bar = f"[{'#' * filled}{'.' * (_BAR_CELLS - filled)}] {share:4.0%}"
    done = f"{size(progress.bytes_done)} of {size(progress.bytes_total)}" if progress.bytes_total else ""
    return "  ".join(part for part in (bar, done, _now(progress)) if part)


def _now(progress: DownloadProgress) -> str:
    if progress.state == "stalled":
        retry = f", retrying {progress.attempt}/{progress.attempts}" if progress.attempt > 1 else ""
        return f"stalled{retry}" + (f": {progress.problem.sentence}" if progress.problem else "")
    if progress.state == "queued" and any(file.note for file in progress.files):
        return next(file.note for file in progress.files if file.note)
    if progress.state == "downloading" and progress.bytes_per_s is not None and progress.left_s is not None:
        return f"{size(progress.bytes_per_s)}/s  {clock(progress.left_s)} left"
    return progress.state
