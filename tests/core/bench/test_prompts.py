"""Prompts from a file: every form that is read, and a sentence for every one that is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.bench.prompts import FEW_PROMPTS, PROMPTS, read_prompts
from core.errors import MissingFile, UnreadablePrompts


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "prompts.txt"


def test_the_fixed_prompts_are_forty_different_ones() -> None:
    assert len(set(PROMPTS)) == len(PROMPTS) == 40
    assert set(FEW_PROMPTS) < set(PROMPTS)


@pytest.mark.parametrize(
    "data", ["one\ntwo 🎂\n", "\ufeffone\r\n\r\n  two 🎂  ", "\n\none\n \t\ntwo 🎂"], ids=["lines", "windows", "blanks"]
)
def test_a_text_file_has_one_prompt_a_line(file: Path, data: str) -> None:
    file.write_bytes(data.encode())
    assert read_prompts(file) == ("one", "two 🎂")


def test_a_json_file_has_a_list_whose_prompts_may_have_several_lines(tmp_path: Path) -> None:
    file = tmp_path / "prompts.json"
    file.write_text('["one\\nmore", "", "two"]')
    assert read_prompts(file) == ("one\nmore", "two")


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("prompts.txt", b"", "There are no prompts in"),
        ("prompts.txt", b" \n\n", "There are no prompts in"),
        ("prompts.txt", b"caf\xe9", "cannot be read as text"),
        ("prompts.txt", b"a" * ((4 << 20) + 1), "too large"),
        ("prompts.txt", b"a\n" * 10_001, "There are 10,001 prompts in"),
        ("prompts.json", b"[]", "There are no prompts in"),
        ("prompts.json", b"", "no JSON list of strings"),
        ("prompts.json", b'{"a": "b"}', "no JSON list of strings"),
        ("prompts.json", b'["a", 3]', "no JSON list of strings"),
        ("prompts.json", b'["a', "no JSON list of strings"),
    ],
)
def test_a_bad_file_is_told(tmp_path: Path, name: str, data: bytes, sentence: str) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    with pytest.raises(UnreadablePrompts, match=sentence) as caught:
        read_prompts(file)
    assert str(file) in caught.value.problem.sentence


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path, Path(os.devnull)):
        with pytest.raises(MissingFile, match=str(path)):
            read_prompts(path)
    with pytest.raises(UnreadablePrompts, match="cannot be read"):
        read_prompts(tmp_path / ("x" * 300))
