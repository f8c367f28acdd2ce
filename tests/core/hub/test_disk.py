"""Disks that are too small, fill up, or do not take files."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess

import pytest

from core.errors import CacheNotWritable, DiskFull
from core.hub.listing import ListedFile
from core.hub.part import Part
from core.hub.settings import HubSettings
from helpers.downloads import MIB, WEIGHTS, new_download, parts, published, snapshot
from helpers.fake_hub import etag
from helpers.loop import in_loop

DISK_BYTES = 30 * MIB


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 30 MiB in memory."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "mirror-sd-test", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if mounted.returncode:
        pytest.skip(f"mounting a file system is refused here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def files():
    return {"config.json": b"{}", WEIGHTS: random.Random(7).randbytes(20_000_000)}


@pytest.fixture
def small(hub, small_disk):
    return HubSettings(hub.url, cache=str(small_disk / "cache"))


@in_loop
async def test_a_model_that_does_not_fit_is_refused_before_a_byte(hub, small, files):
    files[WEIGHTS] = bytes(40_000_000)
    download = new_download(small)
    with pytest.raises(DiskFull, match=r"40\.0 MB are still needed, but only 31\.\d MB are free") as refused:
        await download.run()
    assert "Free some space" in refused.value.problem.hint
    assert download.progress.state == "failed"
    assert hub.sent[WEIGHTS] == 0
    assert list(small.cache_dir.glob("**/blobs/*")) == []


@in_loop
async def test_a_disk_that_fills_meanwhile_pauses_the_download_until_there_is_room(hub, small, files, small_disk):
    hub.bytes_per_s = 20_000_000
    download = new_download(small)
    running = asyncio.create_task(download.run())
    filler = small_disk / "filler"
    states = []
    async for progress in download.watch():
        if progress.bytes_done > 5_000_000 and not filler.exists() and "paused" not in states:
            filler.write_bytes(bytes(12 * MIB))
        if progress.state == "paused" and "paused" not in states:
            assert progress.problem.kind == "DiskFull"
            assert "MB are still needed, but only" in progress.problem.sentence
            assert progress.bytes_per_s is None
            assert published(small) == []
            download.resume()  # too early: it is paused again
        elif progress.state == "paused" and states[-1] != "paused":
            filler.unlink()  # from here it goes on by itself
        states.append(progress.state)
    assert snapshot(await running) == files
    assert hub.sent[WEIGHTS] <= len(files[WEIGHTS]) + MIB
    assert parts(small) == {}


@in_loop
async def test_a_download_that_rests_for_want_of_room_can_be_paused_and_cancelled(hub, small, small_disk):
    hub.bytes_per_s = 20_000_000
    download = new_download(small)
    running = asyncio.create_task(download.run())
    async for progress in download.watch():
        if progress.bytes_done > 5_000_000 and not (small_disk / "filler").exists():
            (small_disk / "filler").write_bytes(bytes(12 * MIB))
        if progress.state == "paused" and progress.problem:
            download.pause()
            (small_disk / "filler").unlink()
        elif progress.state == "paused":
            download.cancel(keep=False)
    assert running.exception() is not None
    assert parts(small) == {}


def test_a_block_that_the_disk_does_not_take_is_taken_later(small_disk):
    content = random.Random(3).randbytes(8 * MIB)
    file = ListedFile(WEIGHTS, len(content), etag(content))
    (small_disk / "filler").write_bytes(bytes(DISK_BYTES - 3 * MIB))
    part = Part(small_disk, "acme/tiny", file)
    part.open()
    part.append([content[:MIB]])
    with pytest.raises(DiskFull, match=r"disk is full: 0 B are free"):
        part.append([content[MIB : 4 * MIB]])
    (small_disk / "filler").unlink()
    with pytest.raises(DiskFull):  # what comes after the lost block must not take its place
        part.append([content[4 * MIB :]])
    part.close()
    part = Part(small_disk, "acme/tiny", file)
    part.open()
    assert MIB <= part.bytes_here < 4 * MIB
    part.append([content[part.bytes_here :]])
    part.finish()
    part.close()
    assert (small_disk / "models--acme--tiny/blobs" / file.etag).read_bytes() == content


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@in_loop
async def test_a_folder_that_takes_no_files_is_told(settings):
    settings.cache_dir.mkdir()
    settings.cache_dir.chmod(0o500)
    with pytest.raises(CacheNotWritable):
        await new_download(settings).run()


@in_loop
async def test_a_file_in_place_of_the_folder_is_told(settings):
    settings.cache_dir.write_text("in the way")
    with pytest.raises(CacheNotWritable, match="does not take files"):
        await new_download(settings).run()
