"""The engine lock: one holder, known by name, free again however the holder ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from core.errors import EngineBusy
from core.lock import EngineLock, held_alone
from core.paths import state_dir

HOLD = """
import sys
from core.lock import EngineLock
lock = EngineLock("window")
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path))


@pytest.fixture
def other_process():
    child = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.communicate()


def test_a_second_process_is_told_who_holds_the_engine(other_process):
    with pytest.raises(EngineBusy, match=f"window \\(process {other_process.pid}\\)"):
        EngineLock("terminal").acquire()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_the_holder_frees_the_engine(other_process, end):
    os.kill(other_process.pid, end)
    other_process.wait()
    EngineLock("terminal").acquire()


def test_release_and_acquire_again():
    first, second = EngineLock("window"), EngineLock("terminal")
    first.acquire()
    first.acquire()  # harmless
    with pytest.raises(EngineBusy):
        second.acquire()
    first.release()
    second.acquire()
    assert b"terminal" in (state_dir() / "engine.lock").read_bytes()


@pytest.mark.usefixtures("other_process")
def test_a_damaged_lock_file_still_locks():
    (state_dir() / "engine.lock").write_bytes(b"\xff{")
    with pytest.raises(EngineBusy, match="program"):
        EngineLock("terminal").acquire()


def test_one_at_a_time_is_within_a_file_that_is_held_alone(tmp_path):
    with held_alone(tmp_path / "lock", 1), pytest.raises(TimeoutError), held_alone(tmp_path / "lock", 0.05):
        pass
    with held_alone(tmp_path / "lock", 0.05):
        pass
