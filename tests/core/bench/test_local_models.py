"""Models by path or by hub id, from what is on this machine alone."""

from __future__ import annotations

import pytest
from huggingface_hub import constants

from core.bench.local_models import local_model
from core.errors import MissingFile


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.mark.usefixtures("hub_cache")
def test_a_path_stays_what_it_is(tmp_path):
    assert local_model(str(tmp_path)) == str(tmp_path)


def test_an_id_that_was_downloaded_is_its_snapshot(hub_cache):
    repository = hub_cache / "models--someone--Model-4bit"
    snapshot = repository / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    assert local_model("someone/Model-4bit") == str(snapshot)


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize("name", ["someone/Model-8bit", "not a path", "a/b/c", "missing.gguf"])
def test_what_is_not_here_is_one_clear_error(name):
    with pytest.raises(MissingFile, match=name):
        local_model(name)
