"""One answer's steps as a trace that chrome://tracing and ui.perfetto.dev open. No Qt.

The format is the JSON object form of the Trace Event Format: complete events (`ph` X) with `ts` and `dur` in
microseconds, one thread a device. The trace holds times and counts, and nothing of the text.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from app.language import tr
from app.stats.step_record import AnswerRecord, Lane, Work
from core.errors import TraceNotWritten
from core.files import replace_file

_TARGET, _DRAFT, _STEPS = 1, 2, 3
_NAMES = {
    Work.VERIFY: "verify",
    Work.PROPOSE: "proposals from the draft's rows",
    Work.DRAFT: "draft",
    Work.HIT: "draft beside the verification: hit",
    Work.REDRAFT: "draft anew after a miss",
    Work.DISCARDED: "draft beside the verification: discarded",
}


def trace_events(record: AnswerRecord) -> list[dict[str, Any]]:
    """The events, names of the threads first."""
    threads = {_TARGET: "Target", _DRAFT: "Draft", _STEPS: "Steps"}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": name}}
        for number, name in threads.items()
    ]
    events.append({"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Mirror SD"}})
    for step in record.steps:
        figures = {
            "mode": step.mode, "proposed": step.proposed, "accepted": step.accepted, "tokens": step.tokens,
            "draft_ms": step.draft_ms, "verify_ms": step.verify_ms, "other_ms": step.other_ms,
            "branch": step.branch, "branches": step.branches,
        }  # fmt: skip
        events.append(_complete(f"step {step.number}", _STEPS, step.begin_s, step.end_s, figures))
    for thread, lane in ((_TARGET, record.target), (_DRAFT, record.draft)):
        events += _lane_events(thread, lane)
    return events


def write_trace(record: AnswerRecord, path: Path) -> None:
    """Write the trace; an older file of that name is replaced once the new one is whole. Raises `TraceNotWritten`."""
    trace = {"displayTimeUnit": "ms", "traceEvents": trace_events(record)}
    try:
        replace_file(path, msgspec.json.encode(trace))
    except OSError as error:
        raise TraceNotWritten(
            tr("The trace could not be written to {path}: {reason}.").format(
                path=path, reason=os.strerror(error.errno or 0)
            ),
            tr("Choose another folder."),
            repr(error),
        ) from error


def _lane_events(thread: int, lane: Lane) -> list[dict[str, Any]]:
    spans = map(lane.span, range(len(lane)))
    return [_complete(_NAMES[span.work], thread, span.begin_s, span.end_s, {"step": span.step}) for span in spans]


def _complete(name: str, thread: int, begin_s: float, end_s: float, args: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "cat": "decode", "pid": 1, "tid": thread,
        "ts": round(begin_s * 1e6, 1), "dur": round((end_s - begin_s) * 1e6, 1), "args": args,
    }  # fmt: skip
