"""The terminal commands as a user runs them."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys

import pytest

import assets
from core import __version__
from core.modes import MODES

LIMIT_S = 120
DONE_FIELDS = {
    "event",
    "text",
    "token_ids",
    "tokens",
    "steps",
    "accepted_per_step",
    "tokens_per_second",
    "time_to_first_token_s",
    "mode",
    "finish_reason",
}


def mirror_sd(*arguments: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, **environment},
    )


@pytest.fixture
def pair(tiny_pair):
    """The options that name the tiny pair."""
    return ("--target", tiny_pair.target, "--draft", tiny_pair.draft)


def test_version_and_help():
    assert mirror_sd("--version").stdout == f"mirror-sd {__version__}\n"
    for command in (
        (),
        ("chat",),
        ("bench",),
        ("check",),
        ("kernels",),
        ("kernels", "compile"),
        ("pairs",),
        ("inspect",),
        ("pull",),
        ("rm",),
        ("doctor",),
    ):
        result = mirror_sd(*command, "--help")
        assert result.returncode == 0
        assert "usage: mirror-sd" in result.stdout


def test_a_prompt_is_answered_with_one_line_of_statistics(pair):
    result = mirror_sd("chat", *pair, "--prompt", "the cat", "--max-tokens", "12")
    assert result.returncode == 0, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("auto: ")
    assert "12 tokens" in line
    assert result.stdout.strip()


def test_standard_input_is_a_prompt_too(pair):
    options = ("chat", *pair, "--max-tokens", "12", "--temperature", "0.9", "--seed", "5", "--json")
    by_input = mirror_sd(*options, stdin="the cat")
    by_option = mirror_sd(*options, "--prompt", "the cat")
    ids = [json.loads(result.stdout.splitlines()[-1])["token_ids"] for result in (by_input, by_option)]
    assert ids[0] == ids[1]


@pytest.mark.parametrize("mode", ["plain", "lookup", "gpu", "ane", "mirror", "auto"])
def test_json_lines_end_with_the_done_event(pair, mode):
    result = mirror_sd("chat", *pair, "--prompt", "the dog", "--max-tokens", "9", "--json", "--mode", mode)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    kinds = {event["event"] for event in events}
    assert kinds - {"modechanged"} == {"progress", "loaded", "prefill", "step", "done"}
    assert mode == "auto" or "modechanged" not in kinds
    done = events[-1]
    assert done.keys() >= DONE_FIELDS
    assert (done["event"], done["tokens"], done["mode"], done["finish_reason"]) == ("done", 9, mode, "length")
    assert done["text"] == "".join(event["text"] for event in events if event["event"] == "step")
    steps = [event for event in events if event["event"] == "step"]
    origins = [token["origin"] for step in steps for token in step["tokens"]]
    assert len(origins) == 9
    assert origins.count("draft") == sum(step["accepted"] for step in steps)
    assert mode != "plain" or set(origins) == {"plain"}


def test_the_width_limits_the_rows_of_a_pass(pair):
    result = mirror_sd(
        "chat", *pair, "--prompt", "the dog", "--max-tokens", "9", "--json", "--width", "3", "--mode", "gpu"
    )
    steps = [json.loads(line) for line in result.stdout.splitlines() if '"event": "step"' in line]
    assert max(step["width"] for step in steps) == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--target", "/nowhere/model.gguf"], "The model /nowhere/model.gguf does not exist."),
        (["--draft", "/nowhere/draft"], "has no readable config.json"),
        (["--width", "99"], "The width must lie between 1 and 8"),
        (["--temperature", "-1"], "The temperature must lie between 0 and 10"),
        (["--max-tokens", "0"], "at least one token"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value[0],
)
def test_bad_input_gives_one_sentence(pair, arguments, sentence):
    result = mirror_sd("chat", *pair, "--prompt", "x", *arguments)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_draft_for_another_target_gives_one_sentence(tiny_pair):
    draft = str(assets.path("demo-draft"))
    result = mirror_sd("chat", "--target", tiny_pair.target, "--draft", draft, "--prompt", "x")
    assert result.returncode == 1
    assert "was made for another target: its hidden size is 576, this target's 32" in result.stderr


def test_a_failure_in_json_is_an_event(pair):
    result = mirror_sd("chat", *pair, "--prompt", "x", "--width", "99", "--json")
    last = json.loads(result.stdout.splitlines()[-1])
    assert (result.returncode, last["event"], last["problem"]["kind"]) == (1, "failed", "BadRequest")


@pytest.mark.parametrize(
    "arguments", [["chat", "--bogus"], ["chat", "--mode", "warp"], ["dance"], ["bench", "--runs", "many"]]
)
def test_unknown_options_are_refused_with_the_usage(arguments):
    result = mirror_sd(*arguments)
    assert result.returncode == 2
    assert "usage: mirror-sd" in result.stderr
    assert "error:" in result.stderr


@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_an_empty_prompt_is_refused(prompt):
    result = mirror_sd("chat", stdin=prompt)
    assert result.returncode == 1
    assert "There is no prompt." in result.stderr


def test_ctrl_c_stops_the_answer_and_keeps_its_text(pair):
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "chat", *pair, "--prompt", "the cat", "--max-tokens", "4000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    first = process.stdout.read(20)
    process.send_signal(signal.SIGINT)
    rest, statistics = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert first + rest
    assert b"ended by cancelled" in statistics


def test_a_conversation_in_a_terminal(pair):
    """Two turns on a real terminal, then end of input."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "chat", *pair, "--max-tokens", "8"],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(controller, b"the cat\nthe dog\n\x04")
    stdout, stderr = process.communicate(timeout=LIMIT_S)
    os.close(controller)
    os.close(terminal)
    assert process.returncode == 0, stderr
    assert stderr.count("8 tokens") == 2
    assert stdout.count("> ") >= 3


def test_bench_prints_every_mode_and_its_break_even_and_writes_them(pair, tmp_path):
    result = mirror_sd("bench", *pair, "--max-tokens", "8", "--runs", "1", "--json", str(tmp_path / "bench.json"))
    assert result.returncode == 0, result.stderr
    assert "break-even" in result.stdout
    assert "Same text in all modes" in result.stdout
    table = [line.split() for line in result.stdout.splitlines()]
    modes = [words[0] for words in table if words and words[0] in MODES]
    assert {*modes} == {*MODES}
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["machine"]["cores"]
    names = {row["name"]: row for row in written["rows"]}
    for mode in ("gpu", "ane", "mirror"):
        assert names[f"{mode}: speed"]["ratio_to"] == "plain: speed"
        assert names[f"{mode}: speed"]["ratio"] > 0
        assert names[f"{mode}: break-even"]["value"] > 0


def test_bench_says_at_once_that_its_file_cannot_be_written(pair):
    result = mirror_sd("bench", *pair, "--json", "/nowhere/at/all.json")
    assert result.returncode == 1
    assert "no folder" in result.stderr


def test_doctor_finds_everything_here():
    result = mirror_sd("doctor")
    assert result.returncode == 0, result.stdout + result.stderr
    for what in ("chip", "memory", "MLX", "BLAS", "ane", "demo pair", "cache folder", "state folder"):
        assert what in result.stdout
    assert "(checked)" in result.stdout or sys.platform != "linux"


@pytest.mark.skipif(sys.platform != "linux", reason="MLX compiles CPU kernels on Linux only")
def test_doctor_names_what_is_missing(tmp_path):
    result = mirror_sd("doctor", PATH=str(tmp_path), MIRROR_SD_BLAS="stock")
    assert result.returncode == 1
    assert "BAD   g++" in result.stdout
    assert "Install it (Debian: g++)" in result.stdout
    assert "switched off" in result.stdout
