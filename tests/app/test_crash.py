"""A window that ended unexpectedly is told at the next start: how, with what, and nothing of a chat."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from app import logs
from app.crash import CrashWatch

CHILD = """
import ctypes, faulthandler, os, signal, sys
from pathlib import Path
from app.crash import CrashWatch
watch = CrashWatch(Path(sys.argv[1]))
problem = watch.begin()
print("begun", problem.sentence if problem else "", flush=True)
def crash_here():
    {action}
crash_here()
watch.end()
"""
SECRET = "my secret question"


@pytest.fixture
def log_file(home: Path) -> Path:  # noqa: ARG001
    file = logs.log_file()
    file.write_text(
        f"2026-11-30 10:00:00,000 INFO app.engine: before {Path.home()}/models\n"
        f"2026-11-30 10:00:01,000 CRITICAL app.logs: unexpected exception\nTraceback\nValueError: {SECRET}\n"
    )
    return file


def run_child(log_file: Path, action: str) -> subprocess.CompletedProcess[str]:
    code = CHILD.replace("{action}", textwrap.indent(action, "    ").lstrip())
    return subprocess.run([sys.executable, "-c", code, str(log_file)], capture_output=True, text=True, check=False)


def reports(log_file: Path) -> list[Path]:
    return sorted((log_file.parents[1] / "crash").glob("*.txt"))


def test_a_clean_end_leaves_nothing_to_tell(log_file: Path) -> None:
    assert run_child(log_file, "pass").returncode == 0
    assert reports(log_file) == []
    watch = CrashWatch(log_file)
    assert watch.begin() is None
    watch.end()


def test_a_crash_is_told_with_its_place_once_and_then_kept(log_file: Path) -> None:
    child = run_child(log_file, "faulthandler._sigsegv()")
    assert child.returncode == -signal.SIGSEGV
    watch = CrashWatch(log_file)
    problem = watch.begin()
    assert problem is not None
    assert "defect of the program" in problem.sentence
    assert "Segmentation fault" in problem.detail
    assert "crash_here" in problem.detail
    assert "Mirror SD 0" in problem.detail
    assert "before ~/models" in problem.detail
    assert "CRITICAL app.logs: unexpected exception" in problem.detail
    assert SECRET not in problem.detail
    assert str(Path.home()) not in problem.detail.replace(str(log_file.parents[2]), "")
    watch.end()
    assert [path.name[:6] for path in reports(log_file)] == ["ended "]
    again = CrashWatch(log_file)
    assert again.begin() is None
    again.end()


def test_an_exception_that_ends_the_program_is_told_without_its_message(log_file: Path) -> None:
    note = (
        f"try:\n    raise ValueError({SECRET!r})\nexcept ValueError as error:\n    watch.note(error)\n    os._exit(1)"
    )
    run_child(log_file, note)
    watch = CrashWatch(log_file)
    problem = watch.begin()
    watch.end()
    assert problem is not None
    assert "ValueError ended the program" in problem.detail
    assert "crash_here" in problem.detail
    assert SECRET not in problem.detail


def test_a_killed_window_is_told_as_ended_from_outside(log_file: Path) -> None:
    run_child(log_file, "os.kill(os.getpid(), signal.SIGKILL)")
    watch = CrashWatch(log_file)
    problem = watch.begin()
    watch.end()
    assert problem is not None
    assert "from outside" in problem.sentence


def test_a_window_that_still_runs_is_no_crash(log_file: Path) -> None:
    first = CrashWatch(log_file)
    first.begin()
    assert run_child(log_file, "pass").stdout.split() == ["begun"]
    first.end()


def test_only_the_latest_reports_are_kept(log_file: Path) -> None:
    folder = log_file.parents[1] / "crash"
    folder.mkdir()
    for number in range(12):
        (folder / f"running-9999999{number}.txt").write_text("Mirror SD\n")
        os.utime(folder / f"running-9999999{number}.txt", (number, number))
    watch = CrashWatch(log_file)
    assert watch.begin() is not None
    watch.end()
    assert len(reports(log_file)) == 10


def test_a_missing_log_keeps_nothing_from_being_told(home: Path) -> None:
    missing = home / "state" / "logs" / "missing.log"
    run_child(missing, "os._exit(3)")
    watch = CrashWatch(missing)
    problem = watch.begin()
    watch.end()
    assert problem is not None
    assert "The log cannot be read" in problem.detail
