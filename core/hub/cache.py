"""The folders of the Hugging Face cache, which other programs share.

A file's content is `blobs/<etag>`, and `snapshots/<commit>/<name>` links to it. Ours alone is
`blobs/<etag>.mirror-sd-part`: the beginning of a content. Other programs neither use nor remove it.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout
from huggingface_hub import constants
from huggingface_hub.file_download import are_symlinks_supported

from core.errors import CacheNotWritable, DiskFull, MirrorError
from core.files import replace_file
from core.hub.listing import ListedFile
from core.hub.settings import OTHER_FOLDER
from core.units import size

PART_SUFFIX = ".mirror-sd-part"
_LOCK_MODE = 0o664  # as the hub's client makes them: users may share a cache


def repo_dir(cache: Path, repo: str) -> Path:
    """The folder of a model."""
    return cache / constants.REPO_ID_SEPARATOR.join(["models", *repo.split("/")])


def blobs_dir(cache: Path, repo: str) -> Path:
    """The folder of a model's contents."""
    return repo_dir(cache, repo) / "blobs"


def part_path(cache: Path, repo: str, etag: str) -> Path:
    """Where the beginning of a content is kept."""
    return blobs_dir(cache, repo) / f"{etag}{PART_SUFFIX}"


def snapshot_dir(cache: Path, repo: str, commit: str) -> Path:
    """The folder of a model's files at a commit."""
    return repo_dir(cache, repo) / "snapshots" / commit


def snapshot_file(cache: Path, repo: str, commit: str, name: str) -> Path:
    """A model's file at a commit; most are links to a blob."""
    return snapshot_dir(cache, repo, commit).joinpath(*name.split("/"))


def is_here(cache: Path, repo: str, commit: str, file: ListedFile) -> bool:
    """Whether a file's content is in the cache, by its length; it was verified when it came."""
    places = (blobs_dir(cache, repo) / file.etag, snapshot_file(cache, repo, commit, file.name))
    return any(place.is_file() and place.stat().st_size == file.bytes for place in places)


def try_lock(cache: Path, repo: str, etag: str) -> BaseFileLock | None:
    """The lock of a content, which the hub's client takes too; None while another holds it. Raises as the disk does."""
    path = cache / ".locks" / repo_dir(cache, repo).name / f"{etag}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _acquired(FileLock(path, mode=_LOCK_MODE, thread_local=False))
        except NotImplementedError:  # this file system has no such locks: as the hub's client does then
            return _acquired(SoftFileLock(path, thread_local=False))
    except OSError as error:
        raise disk_error(error, path) from error


def _acquired(lock: BaseFileLock) -> BaseFileLock | None:
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


def publish(cache: Path, repo: str, commit: str, revision: str, files: Iterable[ListedFile]) -> Path:
    """Make verified contents a model: links in the snapshot, then the name of the revision. Returns the folder.

    The link of config.json is the last one: without it, no program takes the folder for a model. Raises as the disk.
    """
    try:
        _publish(cache, repo, commit, revision, files)
    except OSError as error:
        raise disk_error(error, repo_dir(cache, repo)) from error
    return snapshot_dir(cache, repo, commit)


def _publish(cache: Path, repo: str, commit: str, revision: str, files: Iterable[ListedFile]) -> None:
    waiting = sorted(files, key=lambda file: file.name == "config.json")
    while waiting:
        file = waiting.pop(0)
        link = snapshot_file(cache, repo, commit, file.name)
        if not (link.is_file() and link.stat().st_size == file.bytes):
            link.parent.mkdir(parents=True, exist_ok=True)
            _link(cache, blobs_dir(cache, repo) / file.etag, link, any(file.etag == other.etag for other in waiting))
    if revision != commit:
        ref = repo_dir(cache, repo) / "refs" / revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        replace_file(ref, commit.encode())


def _link(cache: Path, blob: Path, link: Path, is_needed_again: bool) -> None:
    link.unlink(missing_ok=True)
    if are_symlinks_supported(cache):
        link.symlink_to(os.path.relpath(blob, link.parent))
    elif is_needed_again:
        shutil.copyfile(blob, link)
    else:  # the client's own layout where there are no links: the content itself stands in the snapshot
        blob.replace(link)


def free_bytes(folder: Path) -> int:
    """Free space on the disk of a folder, which need not be there yet."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free


def disk_error(error: OSError, path: Path) -> MirrorError:
    """What a fault of the disk means for the user."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return disk_full(path, None)
    return CacheNotWritable(
        f"The folder of models does not take files: {error.strerror}.",
        f"Check its permissions, or {OTHER_FOLDER}: {path.parent}",
        repr(error),
    )


def disk_full(folder: Path, needed: int | None) -> DiskFull:
    """`needed`: bytes that are still to come, where that is known."""
    free = free_bytes(folder)
    wanted = f"{size(needed)} are still needed, but only " if needed is not None else "The disk is full: "
    return DiskFull(
        f"{wanted}{size(free)} are free.",
        f"Free some space on the disk of {folder}, or {OTHER_FOLDER}.",
        f"needed {needed}, free {free}",
    )
