"""Text files attached to a message: read, and written into its content as fenced blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from core.chats.model import Attachment
from core.chats.text import storable
from core.errors import MissingFile, UnreadableAttachment

MAX_BYTES = 4_000_000


class TextFile(msgspec.Struct, frozen=True):
    """A file to be attached."""

    name: str
    text: str


def read_text_file(path: Path) -> TextFile:
    """Read a text file: UTF-8, or UTF-16 with its mark. Raises `MissingFile` and `UnreadableAttachment`."""
    try:
        if not path.exists():
            raise MissingFile(f"There is no file “{path.name}”.", detail=str(path))
        if not path.is_file():  # reading a pipe might wait for ever
            raise UnreadableAttachment(f"“{path.name}” is not a file.", "Attach single files.", str(path))
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableAttachment(f"“{path.name}” cannot be read.", detail=str(error)) from error
    if len(data) > MAX_BYTES:
        hint = f"Attach files of at most {MAX_BYTES // 1_000_000} MB."
        raise UnreadableAttachment(f"“{path.name}” is too long.", hint, str(path))
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        hint = "Attach text in UTF-8."
        raise UnreadableAttachment(f"“{path.name}” is not a text file.", hint, f"{path}: {error}") from error
    if "\0" in text:
        raise UnreadableAttachment(f"“{path.name}” is not a text file.", "Attach text in UTF-8.", f"{path}: NUL")
    return TextFile(path.name, text)


def with_files(typed: str, files: Sequence[TextFile]) -> tuple[str, tuple[Attachment, ...]]:
    """A message's content, files first, and where in it each file stands (fence and name included)."""
    content, attachments = "", []
    for file in files:
        name, text = storable(" ".join(file.name.split())), storable(file.text)
        start = len(content)
        longest = max((len(run) for run in re.findall("`+", text)), default=0)
        fence = "`" * max(3, longest + 1)
        content += f"{name}:\n{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"
        attachments.append(Attachment(name, start, len(content)))
        content += "\n\n"
    return (content + storable(typed)) if typed else content.removesuffix("\n\n"), tuple(attachments)


def typed_text(content: str, attachments: Sequence[Attachment]) -> str:
    """What the user typed, without the files before it."""
    return content[attachments[-1].end :].removeprefix("\n\n") if attachments else content
