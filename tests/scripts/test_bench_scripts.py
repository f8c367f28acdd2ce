"""The benchmark scripts as commands: what they print, and what they say where they cannot work."""

from __future__ import annotations

import json

import pytest

import core.engine  # noqa: F401  isort: skip
from core.bench import synthetic
from core.bench.simulate import LABEL
from helpers.folders import write_tiny_pair
from scripts import bench_ane_profile, bench_prefix, simulate


def run(main, monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["script", *arguments])
    return main()


def test_the_projection_is_labelled_from_the_first_line_to_the_file(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(synthetic, "_ANSWERS", 2)
    monkeypatch.setattr(simulate, "MACHINES", simulate.MACHINES[-1:])
    path = tmp_path / "projection.json"
    assert run(simulate.main, monkeypatch, "--json", str(path)) == 0
    printed = capsys.readouterr().out
    assert LABEL in printed.splitlines()[0]
    result = json.loads(path.read_text())
    assert all(LABEL in row["name"] for row in result["rows"])
    assert result["versions"]["what this is"] == LABEL


def test_a_trace_is_recorded_and_projected(monkeypatch, capsys, tmp_path):
    pair = write_tiny_pair(tmp_path)
    path = str(tmp_path / "trace.xz")
    options = ["--target", pair.target, "--draft", pair.draft, "--prompts", "2", "--max-tokens", "20"]
    assert run(simulate.main, monkeypatch, "--record", path, *options) == 0
    assert "2 greedy answers, 24 tokens" in capsys.readouterr().out
    assert run(simulate.main, monkeypatch, "--trace", path, "--check", *options[:4], "--prompts", "2") == 0
    assert "error of the replay" in capsys.readouterr().out


def test_a_missing_trace_is_told(monkeypatch, capsys, tmp_path):
    assert run(simulate.main, monkeypatch, "--trace", str(tmp_path / "none.xz")) == 1
    assert "There is no trace" in capsys.readouterr().err


def test_the_profile_takes_the_options_of_its_kind(monkeypatch, capsys, tmp_path):
    pair = write_tiny_pair(tmp_path)
    path = tmp_path / "profile.json"
    arguments = ["--model", pair.target, "--draft", pair.draft, "--q8", "--skip-ar", "--skip-gpu"]
    arguments += ["--ctx-depths", "64", "128", "--runs", "2", "--max-tokens", "8", "--block-size", "4"]
    assert run(bench_ane_profile.main, monkeypatch, *arguments, "--json", str(path)) == 0
    printed = capsys.readouterr().out
    assert "4 rows a verification" in printed
    assert "w8a16" in printed
    assert "`plain`" not in printed
    assert "`gpu`" not in printed
    names = {row["name"] for row in json.loads(path.read_text())["rows"]}
    assert {"ane after 64 tokens: speed", "mirror after 128 tokens: overlap"} <= names


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "someone/never-downloaded"], "downloads nothing"),
        (["--mode", "auto"], "--q8"),
        (["--runs", "0"], "at least one run"),
    ],
)
def test_the_profile_says_what_is_wrong(monkeypatch, capsys, arguments, said):
    assert run(bench_ane_profile.main, monkeypatch, *arguments) == 1
    assert said in capsys.readouterr().err


def test_a_block_larger_than_the_drafts_is_refused(monkeypatch, capsys, tmp_path):
    pair = write_tiny_pair(tmp_path)
    assert (
        run(bench_ane_profile.main, monkeypatch, "--model", pair.target, "--draft", pair.draft, "--block-size", "9")
        == 1
    )
    assert "between 2 and 8" in capsys.readouterr().err


def test_what_held_conversations_save_is_measured(monkeypatch, capsys, tmp_path):
    pair = write_tiny_pair(tmp_path)
    path = tmp_path / "prefix.json"
    arguments = ["--target", pair.target, "--draft", pair.draft, "--lengths", "200", "--runs", "2", "--json", str(path)]
    assert run(bench_prefix.main, monkeypatch, *arguments) is None
    assert "second chat, nothing held" in capsys.readouterr().out
    rows = {row["name"]: row for row in json.loads(path.read_text())["rows"]}
    (held,) = (name for name in rows if name.endswith("tokens held"))
    assert 190 <= int(held.split()[-3]) <= 210
    # 2 layers of the target and 2 of the draft, 2 heads of 8 channels, keys and values, 4 bytes
    assert rows["200-token system prompt, held for each 1,000 tokens"]["value"] == pytest.approx(0.512)
