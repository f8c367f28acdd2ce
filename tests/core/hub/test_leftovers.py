"""Freeing the disk: models, unfinished downloads, and what other programs left behind."""

from __future__ import annotations

import random

import pytest

from core.errors import ConnectionLost, ModelBusy, ModelNotFound
from core.hub.cache import blobs_dir, repo_dir, try_lock
from core.hub.download import Download
from core.hub.leftovers import find_leftovers, find_removal, remove_leftovers, remove_model
from core.hub.plan import DownloadRequest
from helpers.downloads import MIB, REPO, WEIGHTS, new_download, snapshot
from helpers.fake_hub import Fault, Repo, etag
from helpers.loop import in_loop

SIZE = 2 * MIB


@pytest.fixture
def files():
    return {"config.json": b"{}", WEIGHTS: random.Random(7).randbytes(SIZE)}


def orphan(settings, content: bytes, count: int):
    """What the hub's own client leaves when it is killed."""
    path = blobs_dir(settings.cache_dir, REPO) / f"{etag(content)}.0a1b2c3d.incomplete"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content[:count])
    return path


@in_loop
async def test_removing_a_model_tells_what_it_frees_and_frees_it(settings, files):
    folder = await new_download(settings).run()
    removal = find_removal(settings.cache_dir, REPO)
    assert removal.bytes_freed == sum(map(len, files.values()))
    assert removal.revisions == (folder.name,)
    remove_model(settings.cache_dir, removal)
    assert not repo_dir(settings.cache_dir, REPO).exists()
    with pytest.raises(ModelNotFound, match="not on this disk"):
        find_removal(settings.cache_dir, REPO)


@in_loop
async def test_all_revisions_go_and_shared_content_counts_once(hub, settings, files):
    await new_download(settings).run()
    hub.repos[REPO].files = files | {"config.json": b'{"newer": true}'}
    await new_download(settings).run()
    removal = find_removal(settings.cache_dir, REPO)
    assert len(removal.revisions) == 2
    assert removal.bytes_freed == SIZE + len(b"{}") + len(b'{"newer": true}')
    remove_model(settings.cache_dir, removal)
    assert not repo_dir(settings.cache_dir, REPO).exists()


@in_loop
async def test_copies_of_the_model_stay(hub, settings, files):
    """Copies have the same commit, by which the library finds what to delete."""
    names = [f"acme/copy-{i}" for i in range(8)]
    hub.repos |= {name: Repo(dict(files)) for name in names}
    folder = await new_download(settings).run()
    copies = [await Download(settings, DownloadRequest(name)).run() for name in names]
    assert {copy.name for copy in copies} == {folder.name}
    remove_model(settings.cache_dir, find_removal(settings.cache_dir, REPO))
    assert not folder.exists()
    assert [snapshot(copy) for copy in copies] == [files] * len(names)


@in_loop
async def test_an_unfinished_download_is_removed_whole(hub, settings, files):
    hub.on_content[WEIGHTS].extend([Fault(cut_after=MIB)] + [Fault(cut_after=0)] * 4)
    with pytest.raises(ConnectionLost):
        await new_download(settings).run()
    removal = find_removal(settings.cache_dir, REPO)
    assert removal.bytes_freed == MIB + len(files["config.json"])
    remove_model(settings.cache_dir, removal)
    assert not repo_dir(settings.cache_dir, REPO).exists()


@in_loop
async def test_a_folder_that_the_library_cannot_read_is_removed_too(settings):
    folder = await new_download(settings).run()
    (folder / WEIGHTS).resolve().unlink()
    remove_model(settings.cache_dir, find_removal(settings.cache_dir, REPO))
    assert not repo_dir(settings.cache_dir, REPO).exists()


def test_a_model_that_is_being_downloaded_is_not_removed(settings, files):
    path = orphan(settings, files[WEIGHTS], MIB)
    lock = try_lock(settings.cache_dir, REPO, etag(files[WEIGHTS]))
    removal = find_removal(settings.cache_dir, REPO)
    with pytest.raises(ModelBusy, match="is being downloaded"):
        remove_model(settings.cache_dir, removal)
    assert path.exists()
    lock.release()


@in_loop
async def test_leftovers_of_other_programs_and_ours_are_found_and_removed(hub, settings):
    hub.on_content[WEIGHTS].extend([Fault(cut_after=MIB // 2)] + [Fault(cut_after=0)] * 4)
    with pytest.raises(ConnectionLost):
        await new_download(settings).run()
    theirs = orphan(settings, b"another content" * 1000, 9000)
    found = find_leftovers(settings.cache_dir)
    assert [(each.repo, each.bytes, each.made_by) for each in found] == [
        (REPO, MIB // 2, "Mirror SD"),
        (REPO, 9000, "another program"),
    ]
    hash(found)
    assert remove_leftovers(settings.cache_dir, found[1:]) == 9000
    assert not theirs.exists()
    assert [each.path for each in find_leftovers(settings.cache_dir)] == [found[0].path]


def test_what_is_being_downloaded_is_no_leftover(settings, files):
    path = orphan(settings, files[WEIGHTS], MIB)
    [found] = find_leftovers(settings.cache_dir)
    lock = try_lock(settings.cache_dir, REPO, etag(files[WEIGHTS]))
    assert find_leftovers(settings.cache_dir) == ()
    assert remove_leftovers(settings.cache_dir, [found]) == 0
    assert path.exists()
    lock.release()


def test_a_cache_that_is_not_there_has_no_leftovers(settings):
    assert find_leftovers(settings.cache_dir) == ()
