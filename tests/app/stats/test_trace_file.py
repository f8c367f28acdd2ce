"""The trace of an answer as a file."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from app.stats.step_record import AnswerRecord
from app.stats.trace_file import trace_events, write_trace
from core.errors import TraceNotWritten
from helpers.steps import VERIFY_S, answer_steps


def mirror_answer() -> AnswerRecord:
    record = AnswerRecord()
    for each in answer_steps("mirror", 40):
        record.add(each)
    return record


def test_every_span_and_step_is_a_complete_event_with_times_in_microseconds(tmp_path: Path) -> None:
    record = mirror_answer()
    write_trace(record, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    named = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert named == {1: "Target", 2: "Draft", 3: "Steps"}
    complete = [event for event in events if event["ph"] == "X"]
    counts = {name: sum(event["tid"] == number for event in complete) for number, name in named.items()}
    assert counts == {"Target": len(record.target), "Draft": len(record.draft), "Steps": len(record.steps)}
    first = next(event for event in complete if event["tid"] == 1)
    assert (first["ts"], first["dur"]) == (0, pytest.approx(VERIFY_S * 1e6))
    assert all(event["dur"] >= 0 and event["pid"] == 1 and event["name"] for event in complete)
    kinds = {event["name"].rpartition(": ")[2] for event in complete if event["tid"] == 2}
    assert kinds == {"hit", "discarded", "draft anew after a miss"}


def test_the_trace_holds_no_text() -> None:
    step = next(event for event in trace_events(mirror_answer()) if event["ph"] == "X")
    assert set(step["args"]) == {
        "mode", "proposed", "accepted", "tokens", "draft_ms", "verify_ms", "other_ms", "branch", "branches",
    }  # fmt: skip


def test_an_empty_answer_gives_a_trace_without_events(tmp_path: Path) -> None:
    write_trace(AnswerRecord(), tmp_path / "trace.json")
    assert {event["ph"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]} == {"M"}


def test_a_folder_that_takes_no_file_gives_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(TraceNotWritten, match=f"could not be written to .*: {os.strerror(errno.ENOENT)}"):
        write_trace(mirror_answer(), tmp_path / "missing" / "trace.json")
