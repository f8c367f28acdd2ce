"""What a download would fetch, before a byte of it is fetched."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from core.errors import NothingToDownload, WrongContent
from core.hub.cache import disk_full, free_bytes, is_here, part_path, snapshot_dir
from core.hub.client import HubClient
from core.hub.listing import ListedFile, Listing, list_model
from core.hub.settings import HubSettings
from core.hub.threads import in_thread
from core.message import Message

MODEL_FILES = ("*.json", "model*.safetensors", "*.model", "*.txt", "*.jinja", "*.tiktoken", "README.md", "LICENSE*")
"""What a target or draft is loaded from, and what says who may use it. Files in folders are other formats' copies."""


class DownloadRequest(msgspec.Struct, frozen=True):
    """A model that is wanted."""

    repo: str
    revision: str = "main"
    """Branch, tag or commit."""
    files: tuple[str, ...] = MODEL_FILES
    """Names or patterns with * and ?, where * does not reach into folders."""
    sha256: str = ""
    """What a request for one file must find; empty takes what the hub has."""


def request_of(repo: str, revision: str, file: str | None, sha256: str | None) -> DownloadRequest:
    """For a model that is one file, or for a folder's usual files where `file` is None."""
    return DownloadRequest(repo, revision, MODEL_FILES if file is None else (file,), sha256 or "")


class PlannedFile(msgspec.Struct, frozen=True):
    """A file of a plan."""

    file: ListedFile
    bytes_here: int
    """What the disk holds of it already."""


class DownloadPlan(Message, frozen=True):
    """What a download would do."""

    request: DownloadRequest
    commit: str
    """The revision at the time of the plan; the download keeps to it."""
    gated: bool
    files: tuple[PlannedFile, ...]
    bytes_total: int
    bytes_to_fetch: int
    bytes_free: int
    """On the disk of the cache now."""
    folder: str
    """Where the model will be."""

    @property
    def bytes_free_after(self) -> int:
        """Negative where the disk is too small."""
        return self.bytes_free - self.bytes_to_fetch


def make_plan(cache: Path, request: DownloadRequest, listing: Listing) -> DownloadPlan:
    """Compare a listing with the disk, which is not for the event loop. Raises `NothingToDownload`, `WrongContent`."""
    wanted = [file for file in listing.files if _is_wanted(file.name, request.files)]
    if not wanted:
        raise NothingToDownload(
            f"{listing.repo} has none of the files that are wanted.",
            "It may hold another format; models for MLX are safetensors. In a terminal, --file names single files.",
            f"wanted {request.files}, it has {[file.name for file in listing.files]}",
        )
    if request.sha256 and {file.etag for file in wanted} != {request.sha256}:
        raise WrongContent(
            f"{listing.repo} holds another {wanted[0].name} than the one that is known.",
            "Its owner or a mirror has changed it: it is not downloaded.",
            f"{[file.etag for file in wanted]} instead of {request.sha256}",
        )
    planned = tuple(PlannedFile(file, _bytes_here(cache, listing, file)) for file in wanted)
    # Two files of one content are fetched once.
    missing = {planned_file.file.etag: planned_file.file.bytes - planned_file.bytes_here for planned_file in planned}
    return DownloadPlan(
        request,
        listing.commit,
        listing.gated,
        planned,
        sum(file.bytes for file in wanted),
        sum(missing.values()),
        free_bytes(cache),
        str(snapshot_dir(cache, listing.repo, listing.commit)),
    )


async def plan_download(settings: HubSettings, request: DownloadRequest) -> DownloadPlan:
    """What downloading would do. Raises as `list_model` and `make_plan` do."""
    async with HubClient(settings) as hub:
        listing = await list_model(hub, request.repo, request.revision)
    return await in_thread(make_plan, settings.cache_dir, request, listing)


def check_space(plan: DownloadPlan, cache: Path) -> None:
    """Raises `DiskFull` where the plan does not fit."""
    if plan.bytes_free_after < 0:
        raise disk_full(cache, plan.bytes_to_fetch)


def _is_wanted(name: str, patterns: tuple[str, ...]) -> bool:
    return any(name.count("/") == pattern.count("/") and fnmatchcase(name, pattern) for pattern in patterns)


def _bytes_here(cache: Path, listing: Listing, file: ListedFile) -> int:
    if is_here(cache, listing.repo, listing.commit, file):
        return file.bytes
    part = part_path(cache, listing.repo, file.etag)
    size = part.stat().st_size if part.is_file() else 0
    return size if size <= file.bytes else 0
