"""The known pairs as a user sees them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import psutil
import pytest

import assets
from core.pairs import demo, demo_pair
from core.pairs.catalog import read_catalog
from core.pairs.found import FoundModel
from core.pairs.listing import list_pairs
from core.pairs.memory import CONTEXTS
from core.pairs.pair import Pair

CATALOG = read_catalog(assets.path("pairs.toml"))


def rows(found=(), **options):
    return {row.id: row for row in list_pairs(CATALOG, found, **options)}


def test_every_target_has_a_row_in_the_catalogs_order():
    listed = list_pairs(CATALOG, [])
    assert [row.id for row in listed] == [target.id for pair in CATALOG.pairs for target in pair.targets]
    assert all(len(row.memory) == len(CONTEXTS) for row in listed)


def test_the_demo_pair_is_ready_and_is_what_the_engine_loads():
    row = rows()["demo"]
    assert row.state == "ready"
    assert (row.pair.target, row.pair.draft) == (demo_pair().target, demo_pair().draft)
    assert row.compatibility.runs


def test_without_the_models_wheel_the_demo_target_is_missing(monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda _name: None)
    row = rows()["demo"]
    assert (row.state, row.pair) == ("target missing", None)


def test_what_is_on_disk_is_seen(tmp_path):
    """A draft as the hub has it: the published config, no weights that matter here."""
    draft = tmp_path / "draft"
    draft.mkdir()
    config = next(pair for pair in CATALOG.pairs if pair.id == "qwen3-4b").draft.config
    (draft / "config.json").write_text(json.dumps(config))
    shutil.copy(assets.path("demo-draft") / "model.safetensors", draft)
    found = [FoundModel("z-lab/Qwen3-4B-DFlash-b16", str(draft), "Hugging Face cache")]
    row = rows(found)["qwen3-4b-8bit"]
    assert (row.state, row.draft_path, row.pair) == ("target missing", str(draft), None)
    # These weights are another draft's, which only reading them shows.
    assert not row.compatibility.runs
    assert "fc.weight has the shape [576, 2880], wanted is [2560, 12800]" in row.compatibility.reasons[0]


def test_a_damaged_model_on_disk_counts_as_missing_and_says_why(tmp_path):
    for content in ("{", '{"model_type": "qwen3", "hidden_size": -1}'):
        (tmp_path / "config.json").write_text(content)
        row = rows([FoundModel("mlx-community/Qwen3-4B-8bit", str(tmp_path), "oMLX")])["qwen3-4b-8bit"]
        assert row.state == "not downloaded"
        assert "mlx-community/Qwen3-4B-8bit is damaged" in row.problem


def test_a_target_and_a_draft_on_disk_are_a_pair_of_paths(tiny_pair):
    found = [
        FoundModel("mlx-community/Qwen3-4B-8bit", tiny_pair.target, "LM Studio"),
        FoundModel("z-lab/Qwen3-4B-DFlash-b16", tiny_pair.draft, "oMLX"),
    ]
    row = rows(found)["qwen3-4b-8bit"]
    assert row.state == "ready"
    assert row.pair == Pair("Qwen3 4B 8-bit", tiny_pair.target, tiny_pair.draft)


@pytest.mark.parametrize(
    ("gib", "wanted"),
    [
        (0.5, None),
        (4, "demo"),
        (8, "qwen3-4b-4bit"),
        (16, "qwen3.5-9b-4bit"),
        (24, "qwen3-8b-8bit"),
        (128, "qwen3.8-27b-4bit"),
    ],
)
def test_the_recommended_pair_goes_by_the_machines_memory_and_what_can_be_run(monkeypatch, gib, wanted):
    real = psutil.virtual_memory()
    total = int(gib * 2**30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: real._replace(total=total, available=total // 2))
    best = [row.id for row in list_pairs(CATALOG, [], device="gpu") if row.recommended]
    assert best == ([wanted] if wanted else [])


def test_a_row_is_hashable_as_messages_are():
    assert len({hash(row.compatibility) for row in list_pairs(CATALOG, [])}) > 5
    assert Path(rows()["demo"].target_path).is_file()
