"""`mirror-sd check` as a user runs it, with a real worker, sound or broken."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.check_messages import Divergence, ModeVerdict, Verdict
from core.check_report import difference_line, figures, verdict_sentence
from core.cli import main
from core.pairs import Pair

LIMIT_S = 120
MODES = ("plain", "lookup", "gpu", "ane", "mirror", "auto")
FIELDS = [
    "mode",
    "equal",
    "prompts",
    "first_divergence",
    "tokens_per_second",
    "accepted_per_step",
    "hit_rate",
    "overlap",
]
BROKEN_WORKER = (
    "import core.worker as w, sys\nimport core.engine\nimport core.engine.decode as d\n"
    "d._accept = lambda proposals, choices, eos_ids: ([*proposals, choices[-1]], len(proposals))\n"
    "sys.argv = ['worker', '--owner', 'terminal']\nsys.exit(w.main())"
)
NEAR_TIE = Divergence(2, 16, 5, " the", 9, " a", 4e-4, 1e-3, near_tie=True)
ENDED = Divergence(0, 3, 5, " the", None, "", None, 1e-3, near_tie=False)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.txt"
    file.write_text("the cat\nthe dog\n")
    return file


@pytest.fixture
def options(tiny_pair: Pair, prompts: Path) -> list[str]:
    assert tiny_pair.draft is not None
    return ["--target", tiny_pair.target, "--draft", tiny_pair.draft, "--prompts", str(prompts), "--max-tokens", "10"]


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "app", "check", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("sampling", [[], ["--temperature", "0.9", "--seed", "3"]], ids=["greedy", "seeded"])
def test_json_ends_with_the_verdict_in_its_agreed_shape(options: list[str], sampling: list[str]) -> None:
    result = check(*options, *sampling, "--json")
    assert result.returncode == 0, result.stderr
    *before, last = events(result.stdout)
    assert list(last) == ["event", "modes"]
    assert last["event"] == "verdict"
    assert [mode["mode"] for mode in last["modes"]] == list(MODES)
    for mode in last["modes"]:
        assert list(mode) == FIELDS
        assert (mode["equal"], mode["prompts"], mode["first_divergence"]) == (2, 2, None)
        assert mode["tokens_per_second"] > 0
        assert mode["accepted_per_step"] >= 1
    assert [mode["hit_rate"] is None for mode in last["modes"][:3]] == [True] * 3
    assert {event["event"] for event in before} == {"progress", "checkstarted", "checkedprompt"}
    cells = [(event["prompt"], event["mode"]) for event in before if event["event"] == "checkedprompt"]
    assert cells == [(prompt, mode) for prompt in (0, 1) for mode in MODES]


def test_a_table_fills_in_and_ends_with_a_sentence(options: list[str]) -> None:
    result = check(*options, "--mode", "gpu", "--mode", "mirror")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].endswith(": 2 prompts, 10 tokens at most, greedy")
    heading = next(index for index, line in enumerate(lines) if line.startswith("prompt"))
    assert lines[heading].split() == ["prompt", "plain", "gpu", "mirror"]
    for number in (1, 2):
        words = lines[heading + number].split()
        assert words[0] == str(number)
        assert [words[index] for index in (3, 5)] == ["=", "="]
        assert all(float(words[index]) > 0 for index in (1, 2, 4))
    rows = [line.split() for line in lines[heading + 4 :]]
    assert [row[:4] for row in rows[1:4]] == [[mode, "2", "of", "2"] for mode in ("plain", "gpu", "mirror")]
    assert lines[-1] == "All answers are those of plain decoding, token for token."


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker accepts every proposal."""
    monkeypatch.setattr("core.client.worker_command", lambda _owner: [sys.executable, "-P", "-c", BROKEN_WORKER])


@pytest.mark.usefixtures("broken")
def test_a_lossy_engine_is_a_failure_with_its_place(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *options, "--mode", "gpu", "--json"]) == 1
    plain, gpu = events(capsys.readouterr().out)[-1]["modes"]
    assert (plain["equal"], gpu["equal"]) == (2, 0)
    found = gpu["first_divergence"]
    assert (found["prompt"], found["near_tie"]) == (0, False)
    assert 0 < found["position"] < 10
    assert found["plain_token"] != found["mode_token"]
    assert found["margin"] > found["near_tie_below"] == 1e-3

    assert main(["check", *options, "--mode", "gpu"]) == 1
    *_, note, _, sentence = capsys.readouterr().out.splitlines()
    assert note.startswith(f"gpu, prompt 1, token {found['position'] + 1}: plain decoding said ")
    assert "a difference, margin" in note
    assert sentence == "NOT the answers of plain decoding: gpu."


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--prompts", "/nowhere/at/all.txt"], "There is no file /nowhere/at/all.txt."),
        (["--max-tokens", "0"], "at least one token"),
        (["--temperature", "-1"], "The temperature must lie between 0 and 10"),
        (["--pair", "demo"], "The pair is named twice."),
    ],
    ids=lambda value: "" if isinstance(value, str) else value[0],
)
def test_bad_input_gives_one_sentence(options: list[str], arguments: list[str], sentence: str) -> None:
    result = check(*options, *arguments)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_bad_file_of_prompts_and_an_unknown_pair_give_one_sentence(prompts: Path) -> None:
    prompts.write_bytes(b"\xff\xfe")
    for arguments, sentence in ((["--prompts", str(prompts)], "cannot be read as text"), (["--pair", "x"], "no pair")):
        result = check(*arguments)
        assert result.returncode == 1
        assert sentence in result.stderr
        assert "Traceback" not in result.stderr


def test_a_target_alone_is_checked_in_the_modes_that_need_no_draft(tiny_pair: Pair) -> None:
    result = check("--target", tiny_pair.target, "--json")
    last = events(result.stdout)[-1]
    assert (result.returncode, last["event"]) == (0, "verdict")
    assert [mode["mode"] for mode in last["modes"]] == ["plain", "lookup", "auto"]


def test_help_tells_the_exit_codes() -> None:
    text = " ".join(check("--help").stdout.split())
    assert "It is 1 where an answer differs otherwise" in text
    assert "near-tie" in text


def test_ctrl_c_stops_the_check(options: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "check", *options, "--max-tokens", "3000", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while "decoding" not in json.loads(process.stdout.readline()).get("stage", ""):
        pass
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=LIMIT_S)
    last = json.loads(rest.splitlines()[-1])
    assert (process.returncode, last["event"], last["problem"]["kind"]) == (130, "failed", "Cancelled")


def test_differences_are_told_in_words() -> None:
    assert difference_line("ane", NEAR_TIE) == (
        "ane, prompt 3, token 17: plain decoding said ' the' and ane said ' a' (a near-tie, margin 0.0004 logits)"
    )
    assert difference_line("gpu", ENDED) == (
        "gpu, prompt 1, token 4: plain decoding said ' the' and gpu ended (a difference)"
    )


def test_the_sentence_counts_near_ties_and_names_lossy_modes() -> None:
    plain = ModeVerdict("plain", 9, 9, None, 10.0, 1.0, None, 0.0)
    ane = ModeVerdict("ane", 8, 9, NEAR_TIE, 12.0, 1.5, None, 0.0)
    mirror = ModeVerdict("mirror", 8, 9, ENDED, 5.0, 1.5, 0.25, 0.5)
    assert verdict_sentence(Verdict((plain, ane))).startswith(
        "The answers are those of plain decoding but for 1 that left them at a near-tie. At a near-tie the target finds"
    )
    assert verdict_sentence(Verdict((plain, ane, mirror))) == "NOT the answers of plain decoding: mirror."
    rows = figures(Verdict((plain, ane, mirror))).splitlines()[1:]
    assert rows[2].split() == ["mirror", "8", "of", "9", "5.0", "0.50x", "1.50", "25%", "0.50"]
    still = ModeVerdict("plain", 9, 9, None, 0.0, 0.0, None, 0.0)
    assert "x" not in figures(Verdict((still,))).splitlines()[1], "answers of one token have no speed"
