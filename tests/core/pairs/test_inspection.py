"""A target and a draft by whatever name, inspected."""

from __future__ import annotations

from pathlib import Path

import pytest

import assets
from core.errors import MissingFile, NotOnThisMachine
from core.pairs import demo_draft, demo_pair
from core.pairs.catalog import read_catalog
from core.pairs.facts import ModelFacts
from core.pairs.found import FoundModel
from core.pairs.inspection import inspect
from helpers.published import draft_facts, published, target_facts

CATALOG = read_catalog(assets.path("pairs.toml"))


def source(facts):
    return {fact.what: fact.value for fact in facts}["from"]


def test_the_demo_pair_by_its_name_and_by_its_paths():
    by_name = inspect("demo", "demo", CATALOG, [])
    by_path = inspect(demo_pair().target, demo_draft(), CATALOG, [])
    assert by_name.compatibility.runs
    assert by_name.compatibility == by_path.compatibility
    assert by_name.memory.needed_bytes == by_path.memory.needed_bytes
    assert by_name.preparation.disk_bytes > 0
    assert by_name.fitting == ()


def test_a_target_alone_tells_which_known_drafts_fit():
    report = inspect("demo", None, CATALOG, [])
    assert [(fit.draft, fit.made_for, fit.runs) for fit in report.fitting] == [("demo-draft", True, True)]
    assert report.draft == ()


def test_a_pair_of_the_catalog_without_anything_on_disk():
    report = inspect("qwen3-4b-8bit", "z-lab/Qwen3-4B-DFlash-b16", CATALOG, [])
    assert source(report.target) == source(report.draft) == "the catalog (nothing is on disk yet)"
    assert report.compatibility.runs
    assert report.memory.needed_bytes > 5e9


def test_hub_ids_are_found_in_the_folders_of_other_programs(tiny_pair):
    found = [FoundModel("me/tiny", tiny_pair.target, "oMLX"), FoundModel("me/tiny-draft", tiny_pair.draft, "oMLX")]
    report = inspect("me/tiny", "me/tiny-draft", CATALOG, found)
    assert source(report.target) == tiny_pair.target
    assert report.compatibility.target == "me/tiny"
    assert report.compatibility.runs


def test_models_on_the_hub_are_read_from_there_before_the_catalog_is_believed():
    fixture = published("qwen3-8b")
    asked = []

    def remote(repo: str, revision: str) -> ModelFacts:
        asked.append((repo, revision))
        return target_facts(fixture, "qwen3-8b-8bit", repo) if "mlx" in repo else draft_facts(fixture, repo)

    report = inspect("qwen3-8b-8bit", "z-lab/Qwen3-8B-DFlash-b16", CATALOG, [], remote=remote)
    assert asked == [("mlx-community/Qwen3-8B-8bit", "main"), ("z-lab/Qwen3-8B-DFlash-b16", "main")]
    assert source(report.target) == "the hub"
    assert report.compatibility.runs
    assert {v.outcome for v in report.compatibility.verdicts if v.rule.endswith("weights")} == {"ok"}


def test_a_name_that_is_nowhere_is_told():
    for name in ("me/nothing", "nothing", "x" * 5000, "../../etc/passwd-not-there"):
        with pytest.raises(NotOnThisMachine):
            inspect(name[:4000], None, CATALOG, [])
        with pytest.raises(NotOnThisMachine):
            inspect("demo", name[:4000], CATALOG, [])


def test_a_folder_that_is_no_model_is_told(tmp_path):
    with pytest.raises(MissingFile):
        inspect(str(tmp_path), None, CATALOG, [])


def test_the_draft_that_the_catalog_knows_only_by_size_is_told():
    with pytest.raises(NotOnThisMachine):
        inspect("llama-3.1-8b-4bit", "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat", CATALOG, [])


def test_a_draft_in_a_folder_of_its_published_name_gets_its_warnings(tmp_path, tiny_pair):
    folder = tmp_path / "Qwen3-4B-DFlash-b16"
    folder.symlink_to(Path(tiny_pair.draft))
    report = inspect(tiny_pair.target, str(folder), CATALOG, [])
    assert any("was trained for Qwen3-4B" in warning for warning in report.compatibility.warnings)
