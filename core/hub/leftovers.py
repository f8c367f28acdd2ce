"""What is in the cache and no model: beginnings of downloads, ours and other programs'; and removing models."""

from __future__ import annotations

import dataclasses
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from huggingface_hub import DeleteCacheStrategy, scan_cache_dir

from core.errors import ModelBusy, ModelNotFound, NotRemoved
from core.hub.cache import PART_SUFFIX, repo_dir, try_lock
from core.hub.listing import Listing
from core.message import Message

_OTHERS_SUFFIX = ".incomplete"
_ONE_AT_A_TIME = threading.Lock()


class Leftover(Message, frozen=True):
    """The beginning of a file that nobody is downloading."""

    repo: str
    path: str
    bytes: int
    age_s: float
    """Since it last grew."""
    made_by: Literal["Mirror SD", "another program"]
    """Ours is where a download goes on; another program's is never used again."""


class Removal(Message, frozen=True):
    """What removing a model would take away."""

    repo: str
    bytes_freed: int
    """Content that another model shares is not counted, and stays."""
    revisions: tuple[str, ...]
    path: str


def find_leftovers(cache: Path) -> tuple[Leftover, ...]:
    """All beginnings without an owner at work, largest first. Looks at the disk: not for the event loop."""
    found = (
        _leftover(cache, path)
        for folder in cache.glob("models--*/blobs")
        for path in _files(folder)
        if path.name.endswith((PART_SUFFIX, _OTHERS_SUFFIX))
    )
    return tuple(sorted((each for each in found if each is not None), key=lambda each: -each.bytes))


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:  # its model has just been removed
        return []


@contextmanager
def _idle(cache: Path, repo: str, path: Path) -> Iterator[bool]:
    """Whether nobody is downloading the content, which nobody begins meanwhile either.

    One content at a time in this process: another look, or a removal, would take this one for a download.
    """
    with _ONE_AT_A_TIME:
        lock = try_lock(cache, repo, path.name.partition(".")[0])
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()


def _leftover(cache: Path, path: Path) -> Leftover | None:
    """None where its download is under way."""
    repo = _repo_name(path.parent.parent)
    with _idle(cache, repo, path) as idle:
        if not idle:
            return None
        try:
            stat = path.stat()
        except FileNotFoundError:  # it has just been finished
            return None
    ours = path.name.endswith(PART_SUFFIX)
    made_by: Literal["Mirror SD", "another program"] = "Mirror SD" if ours else "another program"
    return Leftover(repo, str(path), stat.st_size, max(0.0, time.time() - stat.st_mtime), made_by)


def remove_leftovers(cache: Path, leftovers: Iterable[Leftover]) -> int:
    """Delete those that still have no owner at work; the bytes that were freed."""
    return sum(_remove_idle(cache, leftover.repo, Path(leftover.path)) for leftover in leftovers)


def _remove_idle(cache: Path, repo: str, path: Path) -> int:
    with _idle(cache, repo, path) as idle:
        if not idle:
            return 0
        freed = path.stat().st_size if path.is_file() else 0
        path.unlink(missing_ok=True)
        return freed


def find_removal(cache: Path, repo: str) -> Removal:
    """What removing a model takes away. Raises `ModelNotFound`. Reads the whole cache: not for the event loop."""
    folder = repo_dir(cache, repo)
    if not folder.is_dir():
        raise ModelNotFound(f"{repo} is not on this disk.", f"Models are kept in {cache}.")
    freed = sum(path.stat().st_size for path in _unpublished(folder))
    strategy, revisions = _deletion(cache, repo)
    return Removal(repo, freed + strategy.expected_freed_size, revisions, str(folder))


def remove_model(cache: Path, removal: Removal) -> None:
    """Delete a model. Raises `ModelBusy` while a download of it is under way, `NotRemoved` where the disk refuses.

    Models are deleted by the hub's own library, which knows what they share.
    """
    folder = Path(removal.path)
    for path in _unpublished(folder):
        with _idle(cache, removal.repo, path) as idle:
            if not idle:
                raise ModelBusy(f"{removal.repo} is being downloaded.", "Cancel the download first.", str(path))
    strategy, _ = _deletion(cache, removal.repo)
    strategy.execute()
    try:
        if folder.exists():  # beginnings alone, or a folder that the library cannot read
            shutil.rmtree(folder)
    except OSError as error:
        raise _not_removed(removal, repr(error)) from error


def _not_removed(removal: Removal, detail: str) -> NotRemoved:
    return NotRemoved(f"{removal.repo} could not be removed.", f"Check the permissions of {removal.path}.", detail)


def remove_unpublished(cache: Path, listing: Listing) -> None:
    """Delete what a download has brought of a model and no snapshot uses."""
    etags = {file.etag for file in listing.files}
    for path in _unpublished(repo_dir(cache, listing.repo)):
        if path.name.removesuffix(PART_SUFFIX) in etags:
            _remove_idle(cache, listing.repo, path)


def _unpublished(folder: Path) -> list[Path]:
    """Contents and our beginnings that no snapshot of the model links to. Links into a shared store are not ours."""
    used = {path.resolve() for path in folder.glob("snapshots/*/**/*")}
    blobs = folder / "blobs"
    if not blobs.is_dir():
        return []
    return [path for path in blobs.iterdir() if not path.is_symlink() and path.resolve() not in used]


def _deletion(cache: Path, repo: str) -> tuple[DeleteCacheStrategy, tuple[str, ...]]:
    """How the library would delete all revisions of a model, and their commits; none where it cannot read the model.

    It looks commits up in all models, and copies of a model share them: so it is shown this model alone.
    """
    scanned = scan_cache_dir(cache)
    ours = frozenset(each for each in scanned.repos if each.repo_path == repo_dir(scanned.cache_dir or cache, repo))
    commits = tuple(sorted(revision.commit_hash for each in ours for revision in each.revisions))
    return dataclasses.replace(scanned, repos=ours).delete_revisions(*commits), commits


def _repo_name(folder: Path) -> str:
    return folder.name.removeprefix("models--").replace("--", "/")
