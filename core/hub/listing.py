"""What the hub lists of a model: its files at one commit, with sizes and hashes."""

from __future__ import annotations

import asyncio
import re
from pathlib import PurePosixPath
from urllib.parse import quote

import msgspec

from core.errors import BadRequest
from core.hub.client import HubClient, unreadable
from core.hub.retry import patiently

_REPO = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}(/[A-Za-z0-9_][\w.-]{0,95})?", re.ASCII)
_REVISION = re.compile(r"[\w][\w./+@-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ListedFile(msgspec.Struct, frozen=True):
    """A file of a model."""

    name: str
    """Path within the model, with slashes."""
    bytes: int
    etag: str
    """Name of its content in the cache: sha256 (64 digits), or for small files git's sha1 of the blob (40)."""


class Listing(msgspec.Struct, frozen=True):
    """A model at one commit."""

    repo: str
    commit: str
    files: tuple[ListedFile, ...]
    gated: bool
    """Its owner gives access on request. The listing is open to all; the files are not."""
    private: bool


class _Lfs(msgspec.Struct):
    sha256: str
    size: int


class _Sibling(msgspec.Struct):
    rfilename: str
    size: int | None = None
    blob_id: str | None = msgspec.field(default=None, name="blobId")
    lfs: _Lfs | None = None


class _Info(msgspec.Struct):
    sha: str
    siblings: list[_Sibling]
    gated: bool | str = False
    private: bool = False


async def list_model(hub: HubClient, repo: str, revision: str = "main") -> Listing:
    """The files of `repo` at `revision` (branch, tag or commit).

    Raises `BadRequest` for an impossible name, `UnreadableAnswer` for a listing that cannot be trusted, else as the
    client does after some attempts.
    """
    _check_names(repo, revision)
    path = f"/api/models/{repo}/revision/{quote(revision, safe='')}?blobs=true"
    answer = await patiently(lambda: hub.get(path), hub.patience)
    host = hub.settings.endpoint
    try:
        info = await asyncio.to_thread(msgspec.json.decode, answer, type=_Info)
    except (msgspec.DecodeError, RecursionError) as error:
        raise unreadable(host, f"{path}: {error}") from error
    if not _COMMIT.fullmatch(info.sha):
        raise unreadable(host, f"{path}: commit {info.sha!r}")
    files = tuple(_listed(sibling, host) for sibling in info.siblings)
    return Listing(repo, info.sha, files, bool(info.gated), info.private)


def _check_names(repo: str, revision: str) -> None:
    """They become parts of addresses and names of files; in the cache two hyphens stand for the slash."""
    if not _REPO.fullmatch(repo) or "--" in repo or ".." in repo:
        raise BadRequest(f"{repo!r} is not the name of a model.", "It looks like owner/name.")
    if not _REVISION.fullmatch(revision) or ".." in revision:
        raise BadRequest(f"{revision!r} is not the name of a revision.", "It is a branch, a tag or a commit.")


def _listed(sibling: _Sibling, host: str) -> ListedFile:
    """Names become paths and hashes become file names here, so what is listed is checked."""
    name, path = sibling.rfilename, PurePosixPath(sibling.rfilename)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\\" in name or "\0" in name:
        raise unreadable(host, f"file name {name!r}")
    etag = sibling.lfs.sha256 if sibling.lfs else sibling.blob_id or ""
    size = sibling.lfs.size if sibling.lfs else sibling.size
    if size is None or size < 0 or not (_SHA256 if sibling.lfs else _COMMIT).fullmatch(etag):
        raise unreadable(host, f"file {name!r}: size {size}, hash {etag!r}")
    return ListedFile(name, size, etag)
