"""The process that writes shards: it does what it is asked, and its end and a stop are noticed."""

from __future__ import annotations

import os
import sys

import pytest

from core.errors import Cancelled, WorkerDied
from core.training.writer import Writer

CHILD = """
import pathlib, sys
from core.training.writer import serve
def write(shard):
    if shard == 13:
        raise ValueError("no luck")
    if shard == 14:
        sys.stdin.read()
    with pathlib.Path(sys.argv[1]).open("a") as file:
        file.write(f"{shard}\\n")
serve(write)
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return [sys.executable, "-c", CHILD, str(tmp_path / "written")]


def test_shards_are_written_once_and_in_the_order_they_were_asked_for(command, tmp_path):
    with Writer(command) as writer:
        for shard in (3, 4, 3, 5):
            writer.ask_for(shard)
        writer.wait_for(5)
        writer.wait_for(3)
    assert (tmp_path / "written").read_text().split() == ["3", "4", "5"]


def test_a_process_that_fails_is_not_waited_for(command):
    with Writer(command) as writer, pytest.raises(WorkerDied):
        writer.wait_for(13)


def test_a_stop_ends_the_wait(command):
    stopped = iter([False, True])
    with Writer(command, lambda: next(stopped)) as writer, pytest.raises(Cancelled):
        writer.wait_for(14)
