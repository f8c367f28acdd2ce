"""`mirror-sd pairs` and `inspect` as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from core.pairs import demo_draft

LIMIT_S = 120


def mirror_sd(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},  # the hub has tests of its own
    )


def test_the_table_names_every_pair_its_size_its_memory_its_state_and_the_reason():
    result = mirror_sd("pairs")
    assert (result.returncode, result.stderr) == (0, "")
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert "ready" in lines["demo"]
    assert "5.3 GB" in lines["qwen3-4b-8bit"]
    assert "not downloaded" in lines["qwen3-4b-8bit"]
    assert "not downloaded" in lines["qwen3.8-27b-4bit"]
    assert "Recommended for a machine with this much memory: " in result.stdout


def test_every_pair_is_a_line_of_json():
    lines = [json.loads(line) for line in mirror_sd("pairs", "--json").stdout.splitlines()]
    assert {line["event"] for line in lines} == {"pair"}
    demo = next(line for line in lines if line["id"] == "demo")
    assert (demo["state"], demo["runs"]) == ("ready", True)
    assert demo["memory"][0]["needed_bytes"] == sum(row["bytes"] for row in demo["memory"][0]["rows"])
    assert sum(line["recommended"] for line in lines) <= 1


def test_models_of_other_programs_make_a_pair_ready(tiny_pair, tmp_path):
    home = tmp_path / "home"
    for repo, path in (
        ("z-lab/Qwen3-4B-DFlash-b16", tiny_pair.draft),
        ("mlx-community/Qwen3-4B-8bit", tiny_pair.target),
    ):
        place = home / ".lmstudio" / "models" / repo
        place.parent.mkdir(parents=True)
        place.symlink_to(path)
    result = mirror_sd("pairs", HOME=str(home), HF_HOME=str(home / "hf"))
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("qwen3-4b-8bit")]
    assert "ready" in line


def test_a_bad_catalog_in_the_settings_folder_is_told_and_the_table_still_comes(tmp_path):
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "pairs.toml").write_text("format = ")
    result = mirror_sd("pairs", MIRROR_SD_HOME=str(tmp_path))
    assert result.returncode == 0
    assert "The catalog of pairs pairs.toml cannot be used" in result.stderr
    assert "demo " in result.stdout


def test_a_pair_is_inspected_with_every_rule_and_the_memory_sum(tiny_pair):
    result = mirror_sd("inspect", tiny_pair.target, tiny_pair.draft)
    assert (result.returncode, result.stderr) == (0, "")
    for words in (
        "hidden size  ",
        "32 on both sides",
        "target weights",
        "draft programs",
        "sum",
        "Preparing the draft's",
    ):
        assert words in result.stdout


def test_a_pair_that_cannot_work_says_why_and_ends_with_1(tiny_pair):
    result = mirror_sd("inspect", tiny_pair.target, demo_draft())
    assert result.returncode == 1
    assert "NO" in result.stdout
    assert "The draft was made for another target: its hidden size is 576, this target's 32." in result.stdout


def test_too_little_memory_is_no_refusal():
    result = mirror_sd("inspect", "demo", "demo", "--context", str(1 << 24))
    assert result.returncode == 0
    assert "It can be loaded anyway" in result.stdout


def test_inspect_in_json_is_one_line(tiny_pair):
    result = mirror_sd("inspect", tiny_pair.target, tiny_pair.draft, "--json")
    (line,) = result.stdout.splitlines()
    report = json.loads(line)
    assert (report["event"], report["runs"]) == ("inspection", True)
    assert {verdict["outcome"] for verdict in report["compatibility"]["verdicts"]} <= {"ok", "unknown"}
    assert report["memory"]["needed_bytes"] > 0


def test_a_target_alone_names_the_drafts_that_fit():
    result = mirror_sd("inspect", "qwen3.6-27b-4bit")
    assert result.returncode == 0
    assert "z-lab/Qwen3.6-27B-DFlash (made for it)" in result.stdout
    assert "z-lab/Qwen3.5-27B-DFlash (made for another target" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nobody/nothing"], "nobody/nothing is neither a path, nor in the catalog"),
        (["demo", "nobody/nothing"], "nobody/nothing is neither a path"),
        (["demo", "--context", "0"], "The context must lie between 1 and"),
        (["/"], "/ is no model: it holds no config.json."),
    ],
)
def test_bad_input_gives_one_sentence(arguments, sentence):
    result = mirror_sd("inspect", *arguments)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_the_settings_limits_and_models_folder_hold_and_an_option_wins(tiny_pair, tmp_path):
    (tmp_path / "config").mkdir()
    values = {"context_limit": 1000, "prefix_cache_mb": 1, "models_folder": str(tmp_path / "models")}
    (tmp_path / "config" / "settings.json").write_text(json.dumps(values))
    place = tmp_path / "models" / "models--mlx-community--Qwen3-4B-8bit" / "snapshots" / "0"
    place.parent.mkdir(parents=True)
    place.symlink_to(tiny_pair.target)
    home = {"MIRROR_SD_HOME": str(tmp_path)}
    listed = mirror_sd("pairs", **home).stdout
    assert "Memory at 1,000 tokens of context" in listed
    (line,) = [line for line in listed.splitlines() if line.startswith("qwen3-4b-8bit")]
    assert "not downloaded" not in line
    told = mirror_sd("inspect", str(tiny_pair.target), str(tiny_pair.draft), **home).stdout
    assert "1,000 tokens of context" in told
    assert "earlier conversations" in told
    named = mirror_sd("inspect", str(tiny_pair.target), str(tiny_pair.draft), "--context", "4096", **home).stdout
    assert "4,096 tokens of context" in named
