"""Facts of models on disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from core.errors import MissingFile, UnreadableModel, UnsupportedModel
from core.formats.target_config import parse_target_config
from core.pairs import demo_draft, demo_pair
from core.pairs.facts import read_facts
from helpers import gguf_files


def test_a_gguf_file_is_described_as_a_folder_would_be():
    facts = read_facts(Path(demo_pair().target))
    config = parse_target_config(facts.config, facts.name)
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (576, 30, 49152)
    assert facts.tensors["token_embd.weight"].shape == (49152, 576)
    assert facts.tokenizer.tokens == 49152
    assert facts.gguf
    assert not facts.is_draft


def test_a_folder_tells_its_config_its_tensors_and_its_tokenizer(tiny_pair):
    facts = read_facts(Path(tiny_pair.target), "owner/name")
    assert facts.name == "owner/name"
    assert facts.config["model_type"] == "llama"
    assert facts.tensors["model.embed_tokens.weight"].shape == (facts.config["vocab_size"], 32)
    assert facts.tokenizer.tokens == facts.config["vocab_size"]
    weights = Path(tiny_pair.target, "model.safetensors").stat().st_size
    assert 0.8 * weights < facts.weight_bytes < weights


def test_a_draft_is_known_as_one(tiny_pair):
    assert read_facts(Path(demo_draft())).is_draft
    assert read_facts(Path(tiny_pair.draft)).is_draft


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(MissingFile):
        read_facts(tmp_path)
    with pytest.raises(MissingFile):
        read_facts(tmp_path / "nothing")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"a": NaN}', b"[" * 100_000, b'{"a": 1e999}'])
def test_a_config_that_is_no_json_object_is_refused(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UnreadableModel):
        read_facts(tmp_path)


def test_a_damaged_weight_file_is_refused_by_name(tiny_pair, tmp_path):
    folder = shutil.copytree(tiny_pair.target, tmp_path / "m")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(UnreadableModel, match=r"model\.safetensors is damaged: it is cut off"):
        read_facts(folder)


def test_gguf_files_that_cannot_be_run_are_refused_as_the_loader_refuses_them(tmp_path):
    path = tmp_path / "other.gguf"
    gguf_files.write_tiny(path, **{"general.architecture": "mamba"})
    with pytest.raises(UnsupportedModel, match="mamba"):
        read_facts(path)


def test_configs_with_any_entries_are_taken_as_they_stand(tmp_path):
    config = {"model_type": [1], "x": {"y": [None] * 3}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_facts(tmp_path).config == config
