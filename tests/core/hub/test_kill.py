"""Processes that die in the middle of a download."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys

import pytest

from helpers.downloads import MIB, REPO, WEIGHTS, new_download, parts, published, snapshot
from helpers.fake_hub import Fault
from helpers.loop import in_loop

SIZE = 40_000_000
KILLS = 20


@pytest.fixture
def files():
    return {"config.json": b"{}", WEIGHTS: random.Random(7).randbytes(SIZE)}


def pull(hub, settings) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "app", "pull", REPO, "--endpoint", hub.url, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_CACHE": settings.cache},
    )


def content_starts(hub) -> list[int]:
    """Where each request for content began."""
    ranges = [request.range for request in hub.asked(WEIGHTS) if request.status in (200, 206)]
    return [int(each.removeprefix("bytes=").rstrip("-")) if each else 0 for each in ranges]


@pytest.mark.slow
def test_a_download_that_is_killed_twenty_times_ends_right_and_leaves_nothing(hub, settings, files):
    hub.bytes_per_s = 4_000_000  # slow enough that what was sent has arrived, also on a busy machine
    moments = random.Random(4)
    sent_before_run = []
    for _ in range(KILLS):
        sent_before_run.append(hub.sent[WEIGHTS])
        with pull(hub, settings) as child:
            moment = moments.randint(1, int(1.4 * MIB))
            # It runs on while it is being killed, but on a busy machine not to the end.
            hub.on_content[WEIGHTS].append(Fault(stall_after=moment + MIB // 2))
            hub.wait_until_sent(WEIGHTS, sent_before_run[-1] + moment)
            child.kill()
        assert child.returncode == -9
        assert published(settings) == []
    hub.bytes_per_s = 0
    sent_before_run.append(hub.sent[WEIGHTS])
    with pull(hub, settings) as child:
        out, _ = child.communicate(timeout=120)
    assert child.returncode == 0, out
    [folder] = settings.cache_dir.glob("models--*/snapshots/*")
    assert snapshot(folder) == files
    assert parts(settings) == {}
    assert len(list(settings.cache_dir.glob("models--*/blobs/*"))) == len(files)
    # Every run begins where the one before it was killed: what it had been sent, but for at most one mebibyte.
    starts = content_starts(hub)
    assert len(starts) == KILLS + 1
    for (start, sent), (next_start, next_sent) in zip(
        zip(starts, sent_before_run, strict=True), list(zip(starts, sent_before_run, strict=True))[1:], strict=False
    ):
        assert next_start >= start + (next_sent - sent) - MIB


@in_loop
async def test_a_crash_between_the_last_file_and_the_model_costs_nothing(hub, settings, files):
    folder = await new_download(settings).run()
    shutil.rmtree(folder.parents[1] / "snapshots")
    shutil.rmtree(folder.parents[1] / "refs")
    sent = dict(hub.sent)
    assert snapshot(await new_download(settings).run()) == files
    assert hub.sent == sent


@in_loop
async def test_a_crash_amid_the_links_is_made_good(hub, settings, files):
    folder = await new_download(settings).run()
    (folder / "config.json").unlink()
    sent = dict(hub.sent)
    assert snapshot(await new_download(settings).run()) == files
    assert hub.sent == sent
