"""`mirror-sd kernels` as a user runs it, with a real worker."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import assets
from helpers import kernels_child
from helpers.random_drafts import small_draft

LIMIT_S = 120
SMALL = ("--width", "16", "--context", "512")
PROGRAMS = ["ingest_r32", "ingest_r256", "layer0_w16_c512", "layer1_w16_c512"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def draft(tmp_path: Path) -> str:
    return str(small_draft(tmp_path / "draft"))


def kernels(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "app", "kernels", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, "MIRROR_SD_HOME": str(home)},
    )


def events(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_kernels_are_prepared_once_listed_placed_and_removed(home: Path, draft: str) -> None:
    first = events(kernels(home, "compile", "--draft", draft, *SMALL, "--json"))
    assert {event["event"] for event in first[:-1]} == {"kernelprogress"}
    stages = [event["stage"] for event in first[:-1]]
    assert (stages[0], stages[-1]) == ("hash", "done")
    assert set(stages) == {"hash", "quantise", "build", "write", "seal", "done"}
    done = first[-1]
    assert (done["event"], done["hit"], done["entry"]["programs"]) == ("kernelscompiled", False, PROGRAMS)
    assert done["report"]["relative_errors"]["layers.0.mlp.up_proj.weight"] > 0

    again = kernels(home, "compile", "--draft", draft, *SMALL)
    key = done["entry"]["key"]
    assert again.returncode == 0
    assert again.stdout.startswith(f"{key}  4 programs, ")
    assert "ready already" in again.stdout
    assert "largest relative error of a tensor: 0.0" in again.stdout
    assert again.stderr == ""

    listed = kernels(home, "list")
    heading, row = listed.stdout.splitlines()
    assert heading.split() == ["KEY", "SIZE", "FORM", "LAST", "USED", "DRAFT"]
    assert row.startswith(key)
    assert "w8a16, width 16, context 512" in row
    assert row.endswith(draft)

    placed = kernels(home, "place", "--draft", draft, *SMALL)
    lines = placed.stdout.splitlines()
    assert lines[0] == f"Kernels {key} run on the portable CPU runtime."
    assert [line.split()[0] for line in lines[2:]] == PROGRAMS
    assert all(line.split()[2:] == ["0%", "0%", "100%"] for line in lines[2:])

    cleaned = events(kernels(home, "clean", key, "--json"))
    assert cleaned == [{"event": "kernelscleaned", "removed": 1, "bytes_freed": done["entry"]["bytes"]}]
    assert "There are no prepared kernels" in kernels(home, "list").stdout


def test_packages_are_built_into_a_folder(home: Path, draft: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = kernels(home, "build", "--draft", draft, "--out", str(out), "--precision", "fp16", *SMALL)
    assert result.returncode == 0, result.stderr
    assert sorted(os.listdir(out)) == sorted(f"{program}.mlpackage" for program in PROGRAMS)
    assert [line.split()[-1] for line in result.stdout.splitlines()[:-1]] == [
        str(out / f"{program}.mlpackage") for program in PROGRAMS
    ]
    again = kernels(home, "build", "--draft", draft, "--out", str(out), *SMALL)
    assert again.returncode == 1
    assert "exists and is not empty" in again.stderr


def test_without_a_draft_the_demo_draft_is_prepared(home: Path) -> None:
    (*_, done) = events(kernels(home, "compile", "--json"))
    assert done["entry"]["draft"] == str(assets.path("demo-draft"))
    assert done["entry"]["options"] == {"precision": "w8a16", "width": 64, "context": 2048}
    assert len(done["entry"]["programs"]) == 7
    assert done["report"]["kept_fp16"] == ["fc.weight"]


def test_damaged_kernels_are_listed_and_made_anew(home: Path, draft: str) -> None:
    (*_, done) = events(kernels(home, "compile", "--draft", draft, *SMALL, "--json"))
    manifest = Path(done["entry"]["path"]) / "manifest.json"
    manifest.write_text("{")
    listed = kernels(home, "list").stdout
    assert "damaged" in listed
    assert str(manifest) in listed
    again = kernels(home, "compile", "--draft", draft, *SMALL)
    assert "prepared in" in again.stdout
    assert again.stderr.startswith(f"Damaged kernels were removed: {manifest}: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["compile", "--draft", "/nowhere"], "The draft cannot be built from /nowhere"),
        (["compile", "--width", "48"], "48 is no width of a program"),
        (["build", "--context", "7", "--out", "/nowhere/at/all"], "7 is no size of a context"),
        (["clean"], "Name the kernels to remove, or give --all."),
        (["clean", "0123456789abcdef"], 'There are no kernels "0123456789abcdef"'),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value),
)
def test_bad_input_gives_one_sentence(home: Path, arguments: list[str], sentence: str) -> None:
    result = kernels(home, *arguments)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_ctrl_c_stops_the_work_and_leaves_nothing(home: Path, draft: str) -> None:
    """The kernels are being made by a process that never ends, so the command waits until it is stopped."""
    cache = home / "cache" / "kernels"
    command = [sys.executable, kernels_child.__file__, draft, str(cache), "5"]
    maker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    assert maker.stdout.readline() == "at 5\n"
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "kernels", "compile", "--draft", draft, *SMALL, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "MIRROR_SD_HOME": str(home)},
    )
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["stage"] != "wait":
        pass
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=LIMIT_S)
    maker.kill()
    maker.communicate()
    last = json.loads(rest.splitlines()[-1])
    assert (process.returncode, last["event"], last["problem"]["kind"]) == (130, "failed", "Cancelled")
    assert "There are no prepared kernels" in kernels(home, "list").stdout


def test_in_a_terminal_progress_is_a_bar(home: Path, draft: str) -> None:
    controller, terminal = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "app", "kernels", "compile", "--draft", draft, *SMALL],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
        timeout=LIMIT_S,
        check=True,
        env={**os.environ, "MIRROR_SD_HOME": str(home)},
    )
    os.close(terminal)
    shown = os.read(controller, 1 << 16).decode()
    os.close(controller)
    assert "[................]  0 of 13" in shown
    assert "converting weights of layer1" in shown
    assert max(len(line) for line in shown.split("\r\x1b[K")) < 80
    assert shown.endswith("\r\x1b[K")
