"""The catalog that ships, and a newer one in the settings folder."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import assets
from core.errors import BadCatalog
from core.pairs.catalog import load_catalog, read_catalog
from core.pairs.listing import list_pairs
from core.paths import settings_dir

SHIPPED = assets.path("pairs.toml").read_text()


def test_the_shipped_catalog_is_used_where_there_is_no_other(tmp_path):
    loaded = load_catalog(tmp_path)
    assert loaded.source == str(assets.path("pairs.toml"))
    assert loaded.problem is None


def test_a_newer_catalog_in_the_settings_folder_takes_its_place():
    path = settings_dir() / "pairs.toml"
    path.write_text(SHIPPED.replace("version = 1\n", "version = 2\n").replace("SmolLM2 135M", "Renamed"))
    try:
        loaded = load_catalog()
    finally:
        path.unlink()
    assert (loaded.catalog.version, loaded.source, loaded.problem) == (2, str(path), None)
    assert loaded.catalog.pairs[0].name == "Renamed"


WRONG = {
    "no TOML": ("format = 1", "format = = 1", "Invalid value"),
    "not UTF-8": (None, b"\xff\xfe\x00", "utf-8"),
    "empty": (None, b"", "format"),
    "older": ("version = 1\n", "version = 1\n", "is version 1, the built-in one is 1"),
    "another format": ("format = 1", "format = 2", "format"),
    "unknown field": ('id = "demo"\nname', 'id = "demo"\nspeed = 9\nname', "speed"),
    "text for a number": ("weight_bytes = 96_576_768", 'weight_bytes = "many"', "weight_bytes"),
    "negative size": ("weight_bytes = 96_576_768", "weight_bytes = -5", "weight_bytes"),
    "twice": ('id = "smollm2-135m-bf16"', 'id = "demo"', "the target demo stands there twice"),
    "recommends nothing": (
        'memory_gb = 1, target = "demo"',
        'memory_gb = 1, target = "x"',
        "it recommends x, which",
    ),
    "draft": ("mask_token_id = 5, ", "", "mask_token_id is missing"),
    "target": ("num_attention_heads = 9\nnum_key_value_heads = 3\nvocab", "num_key_value_heads = 3\nvocab", "heads"),
    "endless number": ("format = 1", f"format = {'9' * 5000}", "digits"),
    "too deep": (None, b"a = " + b"[" * 100_000, "recursion"),
    "no hub id": ('repo = "HuggingFaceTB/SmolLM2', 'repo = "../../etc/SmolLM2', "repo"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_catalog_that_cannot_be_used_is_told_and_the_built_in_one_stays(tmp_path, case):
    old, new, words = WRONG[case]
    assert old is None or old in SHIPPED
    content = new if old is None else SHIPPED.replace("version = 1\n", "version = 7\n").replace(old, new, 1).encode()
    if case == "older":
        content = SHIPPED.encode()
    (tmp_path / "pairs.toml").write_bytes(content)
    loaded = load_catalog(tmp_path)
    assert loaded.catalog == read_catalog(assets.path("pairs.toml"))
    assert words in loaded.problem.sentence
    assert loaded.problem.kind == "BadCatalog"


def test_a_folder_in_its_place_is_told_too(tmp_path):
    (tmp_path / "pairs.toml").mkdir()
    assert load_catalog(tmp_path).problem is not None
    with pytest.raises(BadCatalog):
        read_catalog(tmp_path / "pairs.toml")


VALUES = [*re.finditer(r"(?<== )[^\n,}\]]+", SHIPPED)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    value=st.sampled_from(VALUES),
    wrong=st.sampled_from(
        ["-1", "0", "1e400", "nan", "true", '""', '"\\u0000"', "[]", "{}", "2020-01-01", str(1 << 70)]
    ),
)
def test_any_wrong_value_in_a_catalog_is_told_or_does_no_harm(value, wrong):
    newer = f"{SHIPPED[: value.start()]}{wrong}{SHIPPED[value.end() :]}".replace("version = 1\n", "version = 7\n")
    with TemporaryDirectory() as folder:
        (Path(folder) / "pairs.toml").write_text(newer)
        loaded = load_catalog(Path(folder))
        rows = list_pairs(loaded.catalog, ())
    assert rows
    assert loaded.problem is None or loaded.problem.sentence.startswith(("The catalog", "pairs.toml"))


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("mlx-community/Qwen3.6-27B-4bit", "qwen3.6-27b"),
        ("Qwen/Qwen3.6-27B", "qwen3.6-27b"),
        ("Qwen3-8B-MLX-6bit", "qwen3-8b"),
        ("mlx-community/Meta-Llama-3.1-8B-Instruct-4bit", "llama-3.1-8b"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "demo"),
    ],
)
def test_a_models_name_tells_its_pair(name, pair):
    assert [p.id for p in read_catalog(assets.path("pairs.toml")).pairs if p.is_target(name)] == [pair]


@pytest.mark.parametrize(
    "name", ["Qwen3-4B-Instruct-2507-4bit", "someone/Qwen3-8B-Tuned", "Qwen3.6-27B-Coder", "", "x"]
)
def test_another_finetune_is_no_pairs_target(name):
    assert not [p.id for p in read_catalog(assets.path("pairs.toml")).pairs if p.is_target(name)]


def test_targets_and_drafts_are_found_by_id_and_hub_id():
    catalog = read_catalog(assets.path("pairs.toml"))
    pair, target = catalog.find("mlx-community/Qwen3-4B-8bit")
    assert (pair.id, target.id) == ("qwen3-4b", "qwen3-4b-8bit")
    assert catalog.find("qwen3-4b-8bit") == (pair, target)
    assert catalog.find("nothing") is None
    assert catalog.of_draft("/models/Qwen3-4B-DFlash-b16") == catalog.of_draft("z-lab/Qwen3-4B-DFlash-b16") == pair
