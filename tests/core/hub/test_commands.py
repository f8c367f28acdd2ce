"""`mirror-sd pull` and `mirror-sd rm` as a user runs them."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import signal
import subprocess
import sys

import pytest

from core.cli import main
from core.cli.pull import progress_line
from core.errors import Problem
from core.hub.progress import DownloadProgress, FileProgress
from core.paths import settings_file
from core.settings import Settings
from core.settings_file import SettingsFile
from helpers.downloads import MIB, REPO, WEIGHTS, parts, snapshot
from helpers.fake_hub import Fault, Repo, etag, status
from helpers.tiny_pairs import DRAFT, TARGET, repos, target_files

SIZE = 4 * MIB
OTHER = "acme/other"
LIMIT_S = 120


@pytest.fixture
def files():
    return {"config.json": b"{}", WEIGHTS: random.Random(7).randbytes(SIZE)}


@pytest.fixture
def run(hub, settings, monkeypatch, capsys):
    """Runs a command in this process: exit code, standard output, standard error."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", settings.cache)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


@pytest.fixture
def start(hub, settings):
    """Starts a command in a process of its own."""

    def start(*arguments: str, **options: object) -> subprocess.Popen[str]:
        environment = {**os.environ, "HF_HUB_CACHE": settings.cache, "HF_ENDPOINT": hub.url}
        return subprocess.Popen([sys.executable, "-m", "app", *arguments], text=True, env=environment, **options)

    return start


def events(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


def test_pull_shows_plan_files_and_folder(run, hub, settings, files):
    code, out, err = run("pull", REPO)
    plan, *lines, folder = out.splitlines()
    assert (code, err) == (0, "")
    assert plan.startswith(f"{REPO} at {hub.repos[REPO].commit[:8]}: 2 files, 4.2 MB, 0 B here; to fetch 4.2 MB")
    assert sorted(line.split()[2:] for line in lines) == [["config.json", "verified"], [WEIGHTS, "verified"]]
    assert snapshot(settings.cache_dir / folder) == files


def test_pull_again_fetches_nothing(run, hub):
    run("pull", REPO)
    sent = dict(hub.sent)
    code, out, _ = run("pull", REPO)
    assert code == 0
    assert "4.2 MB here; to fetch 0 B" in out
    assert hub.sent == sent


def test_pull_as_json_is_typed_events_up_to_the_end(run, settings):
    code, out, _ = run("pull", REPO, "--json")
    told = events(out)
    assert code == 0
    assert {event["event"] for event in told} == {"downloadplan", "downloadprogress"}
    last = told[-1]
    assert (last["state"], last["bytes_done"]) == ("done", SIZE + 2)
    assert last["folder"].startswith(settings.cache)


def test_a_plan_downloads_nothing(run, hub, settings):
    code, out, _ = run("pull", REPO, "--plan")
    assert code == 0
    assert out.splitlines()[1].split() == ["4.2", "MB", WEIGHTS]
    assert events(run("pull", REPO, "--plan", "--json")[1])[0]["bytes_to_fetch"] == SIZE + 2
    assert not hub.sent
    assert not settings.cache_dir.exists()


def test_single_files_and_revisions_can_be_named(run, hub):
    code, _, _ = run("pull", REPO, "--file", "*.json", "--revision", hub.repos[REPO].commit)
    assert code == 0
    assert not hub.asked(WEIGHTS)


def test_a_failed_pull_says_why_and_what_to_do(run, hub):
    hub.on_resolve[WEIGHTS].append(status(403, error="GatedRepo"))
    code, out, err = run("pull", REPO)
    assert code == 1
    assert "This model is gated" in err
    assert "hf auth login" in err
    assert "models--" not in out


def test_one_model_that_fails_does_not_stop_the_next(run, hub, settings):
    hub.repos[OTHER] = Repo({"config.json": b"{}", WEIGHTS: b"small weights"})
    code, out, err = run("pull", "acme/none", OTHER)
    assert code == 1
    assert "no such model" in err
    assert (settings.cache_dir / out.splitlines()[-1] / WEIGHTS).read_bytes() == b"small weights"


def test_offline_says_so(run):
    code, _, err = run("pull", REPO, "--offline")
    assert (code, "offline mode is on" in err) == (1, True)


def test_ctrl_c_keeps_what_has_arrived_and_the_same_command_goes_on(start, run, hub, settings, files):
    hub.bytes_per_s = 2 * MIB
    process = start("pull", REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    hub.wait_until_sent(WEIGHTS, 2 * MIB)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "are kept: the same command goes on from there" in out
    assert err == ""
    assert parts(settings)[etag(files[WEIGHTS])] >= MIB
    hub.bytes_per_s = 0
    assert run("pull", REPO)[0] == 0
    assert hub.sent[WEIGHTS] <= SIZE + MIB


def test_a_terminal_shows_a_bar_with_rate_and_time_left(start, hub):
    hub.bytes_per_s = 1.5 * MIB
    ours, theirs = pty.openpty()
    process = start("pull", REPO, stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    shown = b""
    while chunk := _read(ours):
        shown += chunk
    process.wait(LIMIT_S)
    os.close(ours)
    text = shown.decode()
    assert process.returncode == 0
    assert re.search(r"\[#+\.*\] +\d+%  \d\.\d MB of 4\.2 MB  1\.\d MB/s  0:0\d left", text)
    assert "verified" in text


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other end is closed
        return b""


def progress(**changes: object) -> DownloadProgress:
    file = FileProgress(WEIGHTS, "downloading", 50, 100)
    fields = {
        "repo": REPO, "revision": "main", "commit": "c" * 40, "state": "downloading", "bytes_done": 50_000_000,
        "bytes_total": 100_000_000, "bytes_per_s": 1e6, "left_s": 50.0, "attempt": 1, "attempts": 10, "problem": None,
        "files": (file,),
    }  # fmt: skip
    return DownloadProgress(**fields | changes)


def test_a_line_says_what_is_going_on():
    half = "[############............]  50%  50.0 MB of 100.0 MB  "
    assert progress_line(progress()) == f"{half}1.0 MB/s  0:50 left"
    assert progress_line(progress(left_s=3725.0)).endswith("MB/s  1:02:05 left")
    stalled = {"state": "stalled", "bytes_per_s": None, "left_s": None}
    assert progress_line(progress(**stalled)) == f"{half}stalled"
    told = Problem("TransferStalled", "host sends no more bytes.")
    assert progress_line(progress(**stalled, attempt=2, problem=told)) == (
        f"{half}stalled, retrying 2/10: host sends no more bytes."
    )
    assert progress_line(progress(state="verifying", bytes_per_s=None)) == f"{half}verifying"
    assert progress_line(progress(state="checking", bytes_total=0, bytes_done=0)) == f"[{'.' * 24}]   0%  checking"


def test_rm_shows_what_is_freed_and_removes_only_when_told(run, settings):
    run("pull", REPO)
    code, out, _ = run("rm", REPO)
    assert code == 1
    assert "4.2 MB  acme/tiny" in out
    assert "Nothing was removed" in out
    assert [event["bytes_freed"] for event in events(run("rm", REPO, "--json")[1])] == [SIZE + 2]
    assert list(settings.cache_dir.glob("models--*"))
    code, out, _ = run("rm", REPO, "--yes")
    assert (code, out.splitlines()[-1]) == (0, "4.2 MB freed")
    assert not list(settings.cache_dir.glob("models--*"))
    code, _, err = run("rm", REPO, "--yes")
    assert (code, "is not on this disk" in err) == (1, True)


def test_rm_asks_in_a_terminal(run, monkeypatch):
    run("pull", REPO)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: question and "n")
    assert run("rm", REPO)[0] == 1
    monkeypatch.setattr("builtins.input", lambda question: question and "y")
    code, out, _ = run("rm", REPO)
    assert (code, "4.2 MB freed" in out) == (0, True)


def test_rm_finds_leftovers(run, hub, settings):
    assert run("rm", "--leftovers")[:2] == (0, "There are no leftovers.\n")
    hub.on_content[WEIGHTS].extend([Fault(cut_after=MIB), status(403, error="GatedRepo")])
    assert run("pull", REPO)[0] == 1
    code, out, _ = run("rm", "--leftovers", "--yes")
    assert code == 0
    assert "by Mirror SD, 0 days old" in out
    assert out.splitlines()[-1] == "1.0 MB freed"
    assert parts(settings) == {}


def test_rm_wants_something_to_remove(run):
    code, _, err = run("rm")
    assert (code, "Name the models to remove" in err) == (1, True)


def test_inspect_reads_configs_and_headers_at_the_hub_and_downloads_nothing(run, hub, settings):
    hub.repos |= repos(3_000_000)
    code, out, err = run("inspect", TARGET, DRAFT)
    assert (code, err) == (0, "")
    assert "the hub" in out
    assert "draft weights" in out
    assert hub.sent["model.safetensors"] < 300_000, "headers alone"
    assert not settings.cache_dir.exists()


def test_inspect_of_a_wrong_pair_at_the_hub_says_why(run, hub):
    config = target_files()["config.json"].replace(b'"hidden_size": 64', b'"hidden_size": 32')
    hub.repos |= {**repos(), "bob/narrow": Repo({**target_files(), "config.json": config})}
    code, out, _ = run("inspect", "bob/narrow", DRAFT)
    assert code == 1
    assert "its hidden size is 64, this target's 32" in out


def test_the_windows_settings_hold_for_the_terminal_too(run, hub, tmp_path, monkeypatch):
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path / "home"))
    file = SettingsFile(settings_file())
    file.save(Settings(hub_endpoint=hub.url, models_folder=str(tmp_path / "elsewhere"), offline=True))
    code, _, err = run("pull", REPO)
    assert code == 1
    assert "offline mode is on" in err
    file.save(Settings(hub_endpoint=hub.url, models_folder=str(tmp_path / "elsewhere")))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert run("pull", REPO)[0] == 0
    assert (tmp_path / "elsewhere").is_dir()
    assert run("rm", REPO, "--yes")[0] == 0
    assert not list((tmp_path / "elsewhere").glob("models--*"))
