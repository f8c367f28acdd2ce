"""Minutes and disk of preparing a draft's programs, before anyone agrees to it."""

from __future__ import annotations

import json

import pytest

import ane
import assets
from core.formats.draft_config import parse_draft_config, read_draft_config
from core.pairs.memory import program_bytes
from core.pairs.preparation import estimate
from helpers.published import published

DRAFT = read_draft_config(assets.path("demo-draft"))


def manifest(folder, seconds, size, precision="w8a16"):
    folder.mkdir()
    made = {"parts": {"precision": precision}, "files": {"a": {"bytes": size}}, "seconds": {"compile": seconds}}
    (folder / "manifest.json").write_text(json.dumps({**made, "format": 2, "programs": []}))


def test_where_nothing_was_prepared_the_time_is_not_known(tmp_path):
    preparation = estimate(DRAFT, tmp_path)
    assert preparation.seconds is None
    assert "not known yet" in preparation.words
    assert "about 26.5 MB on disk" in preparation.words


def test_real_kernels_tell_what_they_took(tmp_path):
    made = ane.compile_kernels(assets.path("demo-draft"), tmp_path, width=64, context=2048)
    preparation = estimate(DRAFT, tmp_path)
    assert preparation.runs == 1
    assert preparation.seconds == pytest.approx(sum(made.seconds.values()), rel=0.05)
    assert not preparation.kept
    assert estimate(DRAFT, tmp_path, path=str(assets.path("demo-draft"))).kept
    assert "prepared earlier" in estimate(DRAFT, tmp_path, path=str(assets.path("demo-draft"))).words
    assert not estimate(DRAFT, tmp_path, path=str(tmp_path)).kept


def test_a_larger_draft_takes_longer_by_its_size(tmp_path):
    manifest(tmp_path / "a", seconds=10, size=program_bytes(DRAFT))
    large = parse_draft_config(published("qwen3.5-27b")["draft"]["config"], "x")
    assert estimate(DRAFT, tmp_path).seconds == pytest.approx(10)
    assert estimate(large, tmp_path).seconds == pytest.approx(10 * program_bytes(large) / program_bytes(DRAFT))
    assert "minutes" in estimate(large, tmp_path).words


def test_the_median_stands_and_other_precisions_and_ruins_do_not_count(tmp_path):
    for name, seconds in (("a", 1), ("b", 10), ("c", 1000)):
        manifest(tmp_path / name, seconds, program_bytes(DRAFT))
    manifest(tmp_path / "d", 5000, program_bytes(DRAFT), precision="fp16")
    manifest(tmp_path / "e", 5000, 0)
    for name, content in (("f", "{"), ("g", '{"parts": 5}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(content)
    preparation = estimate(DRAFT, tmp_path)
    assert (preparation.runs, preparation.seconds) == (3, pytest.approx(10))
