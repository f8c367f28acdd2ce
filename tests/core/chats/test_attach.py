"""Text files in messages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.chats.attach import MAX_BYTES, TextFile, read_text_file, typed_text, with_files
from core.errors import MissingFile, UnreadableAttachment


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("naïve 日本\n".encode(), "naïve 日本\n"),
        (b"\xef\xbb\xbfwith mark", "with mark"),
        ("wide".encode("utf-16"), "wide"),
        (b"", ""),
    ],
)
def test_text_files_are_read(tmp_path, data, text):
    file = tmp_path / "a file.txt"
    file.write_bytes(data)
    assert read_text_file(file) == TextFile("a file.txt", text)


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\xff", b"a\0b", b"caf\xe9", b"\xff\xfea"])
def test_other_files_are_refused_in_words(tmp_path, data):
    file = tmp_path / "picture.png"
    file.write_bytes(data)
    with pytest.raises(UnreadableAttachment, match=r"“picture\.png” is not a text file"):
        read_text_file(file)


def test_what_cannot_be_read_is_told_of(tmp_path):
    with pytest.raises(MissingFile, match=r"no file “gone\.txt”"):
        read_text_file(tmp_path / "gone.txt")
    with pytest.raises(UnreadableAttachment, match="is not a file"):
        read_text_file(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableAttachment, match="is not a file"):
        read_text_file(tmp_path / "pipe")
    with (tmp_path / "long").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(UnreadableAttachment, match="too long"):
        read_text_file(tmp_path / "long")
    with pytest.raises(UnreadableAttachment, match="cannot be read"):
        read_text_file(tmp_path / ("x" * 300))
    with pytest.raises(UnreadableAttachment, match="is not a file"):
        read_text_file(Path(os.devnull))


TEXTS = st.text(st.sampled_from("ab\n`🎉\0\ud800"), max_size=20)


@given(typed=TEXTS, files=st.lists(st.builds(TextFile, TEXTS, TEXTS), max_size=3))
def test_a_message_keeps_what_was_typed_apart_from_its_files(typed, files):
    content, attachments = with_files(typed, files)
    assert len(attachments) == len(files)
    if files or "\0" not in typed:
        assert typed_text(content, attachments) == typed.replace("\0", "\ufffd").replace("\ud800", "\ufffd")
    for attachment, file in zip(attachments, files, strict=True):
        block = content[attachment.start : attachment.end]
        name, _, fenced = block.partition("\n")
        fence = fenced[: len(fenced) - len(fenced.lstrip("`"))]
        assert name == f"{attachment.name}:"
        assert fenced.endswith(f"\n{fence}")
        assert fence not in fenced.removeprefix(fence).removesuffix(fence)
        assert file.text.replace("\0", "\ufffd").replace("\ud800", "\ufffd") in fenced
