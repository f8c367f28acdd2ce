"""A download as the user leads it: pause, resume, cancel, several of them; and what it tells meanwhile."""

from __future__ import annotations

import asyncio
import os
import random

import pytest
from huggingface_hub import snapshot_download

from core.errors import CacheNotWritable, Cancelled, HubOffline, NothingToDownload
from core.hub.cache import try_lock
from core.hub.download import Download
from core.hub.leftovers import find_removal, remove_model
from core.hub.local import find_local
from core.hub.plan import DownloadRequest, plan_download
from core.hub.queue import DownloadQueue
from core.hub.settings import HubSettings
from helpers.downloads import HASTY, MIB, REPO, STALL_S, WEIGHTS, new_download, parts, published, snapshot
from helpers.fake_hub import Fault, Repo, etag, status
from helpers.loop import in_loop

SIZE = 4 * MIB + 5
OTHER = "acme/other"


@pytest.fixture
def files():
    return {
        "config.json": b"{}",
        "tokenizer.json": random.Random(6).randbytes(100_000),
        WEIGHTS: random.Random(7).randbytes(SIZE),
        "original/model.bin": b"not for us",
        "model.onnx": bytes(5000),
    }


def wanted(files):
    return {name: files[name] for name in ("config.json", "tokenizer.json", WEIGHTS)}


async def reach(download: Download, is_reached) -> None:
    """Until the download's progress is as wished; fails where it ends before."""
    async for progress in download.watch():
        if is_reached(progress):
            return
    raise AssertionError(f"it ended as {progress}")


def halfway(progress) -> bool:
    return progress.bytes_done > 1.5 * MIB


@in_loop
async def test_only_what_a_model_is_loaded_from_is_fetched(hub, settings, files):
    folder = await new_download(settings).run()
    assert snapshot(folder) == wanted(files)
    assert folder.name == hub.repos[REPO].commit
    assert (folder.parents[1] / "refs/main").read_text() == hub.repos[REPO].commit
    assert hub.asked("model.onnx") == []


@in_loop
async def test_the_plain_client_finds_what_we_downloaded(settings, hub):
    folder = await new_download(settings).run()
    found = await asyncio.to_thread(snapshot_download, REPO, cache_dir=settings.cache, local_files_only=True)
    assert found == str(folder)
    assert find_local(settings.cache_dir, REPO) == folder
    before = len(hub.requests)
    again = snapshot_download(
        REPO, cache_dir=settings.cache, endpoint=hub.url, allow_patterns=["*.json", WEIGHTS], token=False
    )
    assert again == str(folder)
    assert hub.asked(WEIGHTS) == [request for request in hub.requests[:before] if request.path.endswith(WEIGHTS)]


@in_loop
async def test_what_the_plain_client_downloaded_is_not_fetched_again(settings, hub, files):
    await asyncio.to_thread(snapshot_download, REPO, cache_dir=settings.cache, endpoint=hub.url, token=False)
    sent = dict(hub.sent)
    plan = await plan_download(settings, DownloadRequest(REPO))
    assert (plan.bytes_to_fetch, plan.bytes_total) == (0, sum(map(len, wanted(files).values())))
    assert wanted(files).items() <= snapshot(await new_download(settings).run()).items()
    assert hub.sent == sent


@in_loop
async def test_a_plan_counts_what_is_here_and_what_stays_free(hub, settings, files):
    part = settings.cache_dir / "models--acme--tiny/blobs" / f"{etag(files[WEIGHTS])}.mirror-sd-part"
    part.parent.mkdir(parents=True)
    part.write_bytes(files[WEIGHTS][:MIB])
    plan = await plan_download(settings, DownloadRequest(REPO))
    assert plan.commit == hub.repos[REPO].commit
    assert plan.bytes_total == sum(map(len, wanted(files).values()))
    assert plan.bytes_to_fetch == plan.bytes_total - MIB
    assert plan.bytes_free_after == plan.bytes_free - plan.bytes_to_fetch
    assert hub.sent[WEIGHTS] == 0
    hash(plan)


@in_loop
async def test_single_files_can_be_asked_for(settings, files):
    folder = await new_download(settings, files=("original/*.bin",)).run()
    assert snapshot(folder) == {"original/model.bin": files["original/model.bin"]}


@in_loop
async def test_a_model_of_another_format_is_told(settings):
    with pytest.raises(NothingToDownload, match="none of the files that are wanted"):
        await new_download(settings, files=("*.gguf",)).run()


@in_loop
async def test_pause_stops_the_bytes_and_resume_goes_on_from_there(hub, settings, files):
    hub.bytes_per_s = 4 * MIB
    download = new_download(settings)
    running = asyncio.create_task(download.run())
    await reach(download, halfway)
    download.pause()
    assert download.progress.state == "paused"
    assert download.progress.bytes_per_s is None
    await reach(download, lambda progress: "downloading" not in {file.state for file in progress.files})
    kept = parts(settings)[etag(files[WEIGHTS])]
    assert kept >= 1.5 * MIB - len(files["tokenizer.json"])
    assert published(settings) == []
    hub.bytes_per_s = 0
    download.resume()
    assert snapshot(await running) == wanted(files)
    assert [request.range for request in hub.asked(WEIGHTS) if request.status == 206] == [f"bytes={kept}-"]
    assert hub.sent[WEIGHTS] <= SIZE + MIB


@in_loop
async def test_a_resumed_download_keeps_to_its_commit(hub, settings, files):
    old = hub.repos[REPO]
    hub.bytes_per_s = 4 * MIB
    download = new_download(settings)
    running = asyncio.create_task(download.run())
    await reach(download, halfway)
    download.pause()
    requests = len([request for request in hub.requests if request.path.startswith("/api")])
    download.resume()
    hub.bytes_per_s = 0
    assert (await running).name == old.commit
    assert requests == len([request for request in hub.requests if request.path.startswith("/api")])
    assert snapshot(await running) == wanted(files)


@in_loop
async def test_pause_and_resume_at_once_loses_nothing(hub, settings, files):
    hub.bytes_per_s = 8 * MIB
    download = new_download(settings)
    running = asyncio.create_task(download.run())
    await reach(download, halfway)
    for _ in range(5):
        download.pause()
        download.resume()
    download.pause()
    download.resume()
    assert snapshot(await running) == wanted(files)


@pytest.mark.parametrize("keep", [True, False])
@in_loop
async def test_cancel_ends_the_connection_at_once_and_keeps_or_deletes_the_beginning(hub, settings, files, keep):
    hub.on_content[WEIGHTS].append(Fault(stall_after=2 * MIB))
    download = new_download(settings)
    running = asyncio.create_task(download.run())
    await reach(download, halfway)
    download.cancel(keep=keep)
    # Well below the time after which a stalled connection is given up.
    with pytest.raises(Cancelled):
        await asyncio.wait_for(running, HASTY.stall_s / 2)
    assert download.progress.state == "cancelled"
    assert published(settings) == []
    blobs = list(settings.cache_dir.glob("models--*/blobs/*"))
    assert bool(parts(settings)) is keep
    assert bool(blobs) is keep
    assert snapshot(await new_download(settings).run()) == wanted(files)
    assert (hub.sent[WEIGHTS] <= SIZE + MIB) is keep


@in_loop
async def test_a_cancelled_download_deletes_nothing_that_a_model_uses(hub, settings, files):
    folder = await new_download(settings).run()
    hub.repos[REPO].files = files | {"tokenizer.json": random.Random(9).randbytes(2 * MIB)}
    hub.bytes_per_s = 2 * MIB
    download = new_download(settings)
    running = asyncio.create_task(download.run())
    await reach(download, lambda progress: progress.bytes_done > SIZE + MIB)
    download.cancel(keep=False)
    with pytest.raises(Cancelled):
        await running
    assert snapshot(folder) == wanted(files)
    assert parts(settings) == {}


@in_loop
async def test_a_waiting_download_can_be_paused_and_cancelled(settings):
    slot = asyncio.Semaphore(0)
    download = Download(settings, DownloadRequest(REPO), HASTY, slot)
    running = asyncio.create_task(download.run())
    await asyncio.sleep(0)
    download.pause()
    await asyncio.sleep(0)
    assert download.progress.state == "paused"
    download.cancel(keep=True)
    with pytest.raises(Cancelled):
        await running


@in_loop
async def test_a_program_that_ends_keeps_what_has_arrived(hub, settings, files):
    hub.bytes_per_s = 4 * MIB
    queue = DownloadQueue(settings, HASTY)
    download = queue.add(DownloadRequest(REPO))
    await reach(download, halfway)
    await queue.close()
    assert parts(settings)[etag(files[WEIGHTS])] >= 1.5 * MIB - len(files["tokenizer.json"])
    assert download.progress.state == "cancelled"


@in_loop
async def test_another_download_of_the_same_file_is_waited_for(hub, settings, files):
    settings.cache_dir.mkdir()
    lock = try_lock(settings.cache_dir, REPO, etag(files[WEIGHTS]))
    download = new_download(settings)
    running = asyncio.create_task(download.run())
    await reach(download, lambda progress: any("another download" in file.note for file in progress.files))
    assert hub.asked(WEIGHTS) == []
    lock.release()
    assert snapshot(await running) == wanted(files)


@in_loop
async def test_two_programs_at_one_model_fetch_it_once(hub, settings, files):
    hub.bytes_per_s = 8 * MIB
    first, second = await asyncio.gather(new_download(settings).run(), new_download(settings).run())
    assert first == second
    assert snapshot(first) == wanted(files)
    assert hub.sent[WEIGHTS] == SIZE


@in_loop
async def test_downloads_take_turns_and_a_paused_one_lets_the_next_go(hub, settings):
    hub.repos[OTHER] = Repo({"config.json": b"{}", WEIGHTS: random.Random(1).randbytes(MIB)})
    hub.bytes_per_s = 4 * MIB
    queue = DownloadQueue(settings, HASTY)
    first, second = queue.add(DownloadRequest(REPO)), queue.add(DownloadRequest(OTHER))
    assert queue.add(DownloadRequest(REPO)) is first
    await reach(first, halfway)
    assert second.progress.state == "queued"
    first.pause()
    *_, last = [progress async for progress in second.watch()]
    assert last.state == "done"
    assert first.progress.state == "paused"
    hub.bytes_per_s = 0
    first.resume()
    *_, last = [progress async for progress in first.watch()]
    assert (last.state, find_local(settings.cache_dir, REPO) is not None) == ("done", True)
    await queue.close()


@in_loop
async def test_a_failed_download_can_be_started_again(hub, settings, files):
    hub.on_resolve[WEIGHTS].append(status(403))
    queue = DownloadQueue(settings, HASTY)
    download = queue.add(DownloadRequest(REPO))
    *_, last = [progress async for progress in download.watch()]
    assert (last.state, last.problem.kind) == ("failed", "HubRefused")
    queue.start(download)
    await reach(download, lambda progress: progress.state == "checking")
    *_, last = [progress async for progress in download.watch()]
    assert (last.state, last.problem) == ("done", None)
    assert wanted(files) == snapshot(find_local(settings.cache_dir, REPO))
    await queue.close()


@in_loop
async def test_progress_is_typed_hashable_and_only_grows(hub, settings, files):
    hub.bytes_per_s = 6 * MIB
    download = new_download(settings)
    running = asyncio.create_task(download.run())
    seen = [progress async for progress in download.watch()]
    await running
    hash(tuple(seen))
    done = [progress.bytes_done for progress in seen]
    assert done == sorted(done)
    states = [progress.state for progress in seen]
    assert states[0] == "queued"
    assert {"checking", "downloading"} <= set(states)
    last = seen[-1]
    assert (last.state, last.bytes_done, last.bytes_total) == (
        "done",
        last.bytes_total,
        sum(map(len, wanted(files).values())),
    )
    assert last.folder == str(running.result())
    assert {file.state for file in last.files} == {"done"}


@in_loop
async def test_a_stalled_download_says_so_and_shows_no_rate(hub, settings):
    hub.bytes_per_s = 4 * MIB
    hub.on_content[WEIGHTS].extend([Fault(cut_after=int(2.5 * MIB)), Fault(stall_after=0), Fault(stall_after=0)])
    download = new_download(settings, stall_s=STALL_S)
    running = asyncio.create_task(download.run())
    stalled = [progress async for progress in download.watch() if progress.state == "stalled"]
    await running
    assert stalled
    assert {progress.bytes_per_s for progress in stalled} == {progress.left_s for progress in stalled} == {None}
    assert max(progress.attempt for progress in stalled) == 4, "2 after the cut, 3 and 4 after the stalls"
    assert any(progress.problem and "sends no more bytes" in progress.problem.sentence for progress in stalled)


@in_loop
async def test_offline_a_model_that_is_here_is_found_and_another_is_told(hub, settings):
    folder = await new_download(settings).run()
    before = len(hub.requests)
    offline = HubSettings(hub.url, offline=True, cache=settings.cache)
    assert await new_download(offline).run() == folder
    with pytest.raises(HubOffline, match="offline mode is on"):
        await Download(offline, DownloadRequest(OTHER), HASTY).run()
    assert len(hub.requests) == before


@pytest.mark.parametrize("missing", ["config.json", "model-00002-of-00002.safetensors"])
@in_loop
async def test_a_model_with_a_missing_file_is_not_found_here(settings, files, missing):
    del files[WEIGHTS]
    files["model.safetensors.index.json"] = (
        b'{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'
    )
    files |= {f"model-0000{i}-of-00002.safetensors": bytes([i]) * 9000 for i in (1, 2)}
    folder = await new_download(settings).run()
    assert find_local(settings.cache_dir, REPO) == folder
    (folder / missing).unlink()
    assert find_local(settings.cache_dir, REPO) is None


@in_loop
async def test_files_of_one_content_are_fetched_once(hub, settings, files):
    files["model-copy.safetensors"] = files[WEIGHTS]
    folder = await new_download(settings).run()
    assert snapshot(folder)["model-copy.safetensors"] == files[WEIGHTS]
    assert hub.sent[WEIGHTS] + hub.sent["model-copy.safetensors"] == SIZE


@in_loop
async def test_where_there_are_no_links_the_files_stand_in_the_snapshot(hub, settings, files, monkeypatch):
    """The setting of the hub's client for file systems without symbolic links."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_SYMLINKS", True)
    files["model-copy.safetensors"] = files[WEIGHTS]
    folder = await new_download(settings).run()
    assert snapshot(folder) == wanted(files) | {"model-copy.safetensors": files[WEIGHTS]}
    assert not any(os.path.islink(path) for path in folder.rglob("*"))
    assert list((folder.parents[1] / "blobs").iterdir()) == []
    sent = dict(hub.sent)
    assert snapshot(await new_download(settings).run()) == snapshot(folder)
    assert hub.sent == sent


@in_loop
async def test_a_content_of_the_wrong_length_is_fetched_again(settings, files):
    folder = await new_download(settings).run()
    (folder / WEIGHTS).resolve().write_bytes(b"cut off by a crash")
    assert snapshot(await new_download(settings).run()) == wanted(files)


@in_loop
async def test_a_model_whose_links_cannot_be_made_is_none_yet(hub, settings, files):
    """The config comes last: no program takes a folder without it for a model."""
    obstacle = settings.cache_dir / "models--acme--tiny/snapshots" / hub.repos[REPO].commit / WEIGHTS / "in the way"
    obstacle.mkdir(parents=True)
    with pytest.raises(CacheNotWritable):
        await new_download(settings).run()
    assert not (obstacle.parents[1] / "config.json").exists()
    assert not (obstacle.parents[3] / "refs").exists()
    assert find_local(settings.cache_dir, REPO) is None
    obstacle.rmdir()
    obstacle.parent.rmdir()
    sent = dict(hub.sent)
    assert snapshot(await new_download(settings).run()) == wanted(files)
    assert hub.sent == sent


@in_loop
async def test_a_defect_ends_the_download_for_those_who_watch(settings, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("core.hub.download.make_plan", broken)
    download = new_download(settings)
    running = asyncio.create_task(download.run())
    *_, last = [progress async for progress in download.watch()]
    assert (last.state, last.problem.kind) == ("failed", "InternalError")
    assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], ZeroDivisionError)


@in_loop
async def test_what_another_model_has_already_is_not_sent_again(settings, hub, files):
    await new_download(settings).run()
    hub.repos["bob/finetune"] = Repo({**files, "config.json": b"{}"})
    sent = hub.sent[WEIGHTS]
    folder = await Download(settings, DownloadRequest("bob/finetune"), HASTY).run()
    assert hub.sent[WEIGHTS] == sent
    assert (folder / WEIGHTS).read_bytes() == files[WEIGHTS]
    remove_model(settings.cache_dir, find_removal(settings.cache_dir, REPO))
    assert (folder / WEIGHTS).read_bytes() == files[WEIGHTS], "a copy of its own"


@in_loop
async def test_a_damaged_content_of_another_model_never_becomes_one_of_this(settings, hub, files):
    first = await new_download(settings).run()
    blob = (first / WEIGHTS).resolve()
    blob.write_bytes(bytes(len(files[WEIGHTS])))
    hub.repos["bob/finetune"] = Repo({**files, "config.json": b"{}"})
    folder = await Download(settings, DownloadRequest("bob/finetune"), HASTY).run()
    assert (folder / WEIGHTS).read_bytes() == files[WEIGHTS]
