"""What is known of a tokenizer without running it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.formats.gguf_header import read_gguf
from core.formats.tokenizer_facts import folder_tokenizer, gguf_tokenizer_facts, thinks, token_digest
from core.pairs import demo_pair
from helpers.folders import write_llama_folder


def test_the_same_tokenizer_has_one_digest_in_a_gguf_file_and_in_a_folder(demo_tokenizer, tmp_path):
    demo_tokenizer.save(tmp_path)
    in_file = gguf_tokenizer_facts(read_gguf(Path(demo_pair().target)))
    in_folder = folder_tokenizer(tmp_path, {"eos_token_id": 2})
    assert in_file.tokens == in_folder.tokens == 49152
    assert in_file.digest == in_folder.digest != ""
    assert in_file.ends == in_folder.ends == (2,)


def test_one_token_more_or_under_another_id_changes_the_digest(tmp_path):
    folder = write_llama_folder(tmp_path / "m")
    first = folder_tokenizer(folder, {})
    file = json.loads((folder / "tokenizer.json").read_text())
    swapped = json.loads(json.dumps(file))
    vocabulary = swapped["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (folder / "tokenizer.json").write_text(json.dumps(swapped))
    assert folder_tokenizer(folder, {}).digest != first.digest
    file["added_tokens"].append({"id": 9999, "content": "<|new|>"})
    (folder / "tokenizer.json").write_text(json.dumps(file))
    assert folder_tokenizer(folder, {}).digest != first.digest


def test_the_digest_is_of_tokens_and_ids_in_any_order():
    assert token_digest([("a", 0), ("b", 1)]) == token_digest([("b", 1), ("a", 0)])
    assert token_digest([("a", 0), ("b", 1)]) != token_digest([("a", 0), ("b", 2)])


def test_ends_come_from_either_config_whatever_its_form(tmp_path):
    assert folder_tokenizer(tmp_path, {"eos_token_id": [3, 1]}).ends == (1, 3)
    assert folder_tokenizer(tmp_path, {"text_config": {"eos_token_id": 7}}).ends == (7,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [5]}')
    assert folder_tokenizer(tmp_path, {"eos_token_id": "x"}).ends == (5,)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]", b"[" * 100_000, b'{"model": {"vocab": 5}}'])
def test_a_damaged_file_is_a_problem_in_words(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    facts = folder_tokenizer(tmp_path, {})
    assert facts.digest == ""
    assert "cannot be read" in facts.problem


def test_thinking_is_seen_in_the_template(tmp_path):
    assert folder_tokenizer(tmp_path, {}).can_think is None
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": [{"template": "{{ enable_thinking }}"}]}')
    assert folder_tokenizer(tmp_path, {}).can_think is True
    (tmp_path / "chat_template.jinja").write_text("plain")
    assert folder_tokenizer(tmp_path, {}).can_think is False
    assert thinks("...<think>\\n")
