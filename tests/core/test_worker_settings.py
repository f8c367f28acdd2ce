"""What the settings say reaches the real engine process: context, threads, the folder of kernels and its size."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import psutil
import pytest

from core.client import EngineClient
from core.engine import kernels
from core.engine.loader import load_pair
from core.kernel_messages import KernelList, ListKernels
from core.kernels_folder import kernels_dir
from core.paths import settings_file
from core.protocol import ChatMessage, Failed, Generate, Load, Loaded
from core.settings import Settings

LIMIT_S = 120


@pytest.fixture
def choose(tmp_path, monkeypatch):
    """Writes settings into a home of the test's own."""
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path / "home"))
    return lambda **values: settings_file().write_text(json.dumps(values))


def asked(*requests):
    """The last event of each request to one worker, and the worker's number of threads."""

    async def ask():
        client = EngineClient("terminal")
        try:
            last = []
            for request in requests:
                events = [event async for event in await client.send(request)]
                last.append(events[-1])
            return last, psutil.Process(client.worker_pid).num_threads()
        finally:
            await client.close()

    return asyncio.run(asyncio.wait_for(ask(), LIMIT_S))


def finished(work):
    """What a generator returns."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            return ended.value


def test_the_context_limit_holds_in_the_worker_and_is_named_where_it_is_met(choose, tiny_pair):
    choose(context_limit=64)
    message = ChatMessage("user", "word " * 200)
    (loaded, failed), _ = asked(Load(tiny_pair), Generate(tiny_pair, (message,)))
    assert isinstance(loaded, Loaded)
    assert loaded.context_length == 64
    assert isinstance(failed, Failed)
    assert failed.problem.kind == "PromptTooLong"
    assert "limit in the settings" in failed.problem.hint


def test_a_limit_above_what_the_model_reads_changes_nothing(choose, tiny_pair):
    choose(context_limit=10_000_000)
    (loaded,), _ = asked(Load(tiny_pair))
    assert 0 < loaded.context_length < 10_000_000


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core")
def test_the_target_gets_as_many_threads_as_the_settings_say(choose):
    threads = []
    for count in (1, 2):
        choose(target_threads=count)
        threads.append(asked(ListKernels())[1])
    assert threads[1] > threads[0]


def test_the_draft_gets_as_many_threads_as_the_settings_say(choose, tiny_pair):
    choose()
    loaded = finished(load_pair(tiny_pair, lambda: False, settings=Settings(draft_threads=3)))
    try:
        for share in (True, False):
            loaded.programs.share_processor(share)
            assert loaded.programs.runtime.threads == 3
    finally:
        loaded.close()


def test_kernels_are_kept_in_the_folder_of_the_settings(choose, tiny_pair, tmp_path):
    folder = tmp_path / "elsewhere"
    choose(kernels_folder=str(folder))
    (_, listed), _ = asked(Load(tiny_pair), ListKernels())
    assert isinstance(listed, KernelList)
    assert Path(listed.folder) == folder == kernels_dir()
    assert listed.entries
    assert all(Path(entry.path).parent == folder for entry in listed.entries)


def test_beyond_their_room_the_kernels_used_longest_ago_go_and_those_in_use_stay(choose, tiny_pair, tmp_path):
    choose(kernels_folder=str(tmp_path / "kernels"))
    finished(load_pair(tiny_pair, lambda: False)).close()
    made = {path.name for path in kernels_dir().iterdir() if (path / "manifest.json").is_file()}
    assert made
    kernels.keep_below(0, None)
    kernels.keep_below(1, tiny_pair.draft)
    assert {path.name for path in kernels_dir().iterdir() if (path / "manifest.json").is_file()} == made
    kernels.keep_below(1, "/another/draft")
    assert not [path for path in kernels_dir().iterdir() if (path / "manifest.json").is_file()]


def test_a_damaged_settings_file_does_not_keep_the_worker_from_starting(choose):
    choose()
    settings_file().write_text("{")
    (listed,), _ = asked(ListKernels())
    assert isinstance(listed, KernelList)
