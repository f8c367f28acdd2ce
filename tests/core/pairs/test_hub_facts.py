"""Facts read at the hub without a download, and models found in another cache than the usual one."""

from __future__ import annotations

import json

import pytest

from core.errors import FileNotOnHub, ModelNotFound, TokenRefused, UnreadableModel
from core.hub.settings import HubSettings
from core.pairs.compatibility import judge
from core.pairs.found import found_models
from core.pairs.hub_facts import HubFacts
from helpers.fake_hub import FakeHub, Repo
from helpers.tiny_pairs import DRAFT, TARGET, draft_files, repos, target_files, write_model


@pytest.fixture(autouse=True)
def no_token(monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))


@pytest.fixture
def hub():
    with FakeHub(repos()) as running:
        yield running


@pytest.fixture
def read(hub, tmp_path):
    reader = HubFacts(HubSettings(endpoint=hub.url, cache=str(tmp_path / "cache")))
    return lambda repo: reader(repo, "main")


def test_config_and_headers_are_enough_to_judge_a_pair(read, hub, tmp_path):
    hub.repos[TARGET] = Repo(target_files(3_000_000))
    target, draft = read(TARGET), read(DRAFT)
    assert target.tensors is not None
    assert target.tensors["model.embed_tokens.weight"].shape == (300, 64)
    assert judge(target, draft).runs
    assert not (tmp_path / "cache").exists()
    assert hub.sent["model.safetensors"] < 1_500_000  # heads of files, and what was under way with them


def test_several_weight_files_are_one_model(read, hub):
    files = target_files()
    files["model-00002.safetensors"] = draft_files()["model.safetensors"]
    hub.repos["bob/two"] = Repo(files)
    tensors = read("bob/two").tensors
    assert tensors is not None
    assert {"model.norm.weight", "fc.weight"} <= tensors.keys()


def test_a_gated_model_is_known_as_one_where_it_may_be_read(read, hub, monkeypatch):
    hub.repos["bob/gated"] = Repo(target_files(), gated=True, granted={"hf_alice"})
    monkeypatch.setenv("HF_TOKEN", "hf_alice")
    assert read("bob/gated").gated is True
    assert read(TARGET).gated is False


@pytest.mark.parametrize(
    ("files", "error"),
    [
        (None, (ModelNotFound, TokenRefused)),
        ({"model.safetensors": b"x"}, FileNotOnHub),
        ({"config.json": b"{}"}, UnreadableModel),
        ({"config.json": b"[]", "model.safetensors": b"x"}, UnreadableModel),
        ({"config.json": b"{", "model.safetensors": b"x"}, UnreadableModel),
        ({"config.json": b"{}", "model.safetensors": b"x"}, UnreadableModel),
    ],
)
def test_what_is_no_model_is_an_error_of_its_own(read, hub, files, error):
    if files is not None:
        hub.repos["bob/wrong"] = Repo(files)
    with pytest.raises(error):
        read("bob/wrong")


def test_models_are_found_in_the_cache_that_is_named(tmp_path):
    folder = tmp_path / "elsewhere" / "models--acme--tiny" / "snapshots" / ("a" * 40)
    write_model(folder, {**target_files(), "config.json": json.dumps({}).encode()})
    (tmp_path / "home").mkdir()
    found = found_models(tmp_path / "home", tmp_path / "elsewhere")
    assert [(model.name, model.path) for model in found] == [("acme/tiny", str(folder))]
    assert found_models(tmp_path / "home") == []
