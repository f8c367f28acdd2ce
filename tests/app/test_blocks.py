"""Splitting streamed Markdown into blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.blocks import BlockSplitter, Change, FenceClosed, FenceOpened, FenceText, ProseChanged, ProseClosed

LINES = [
    "",
    " ",
    "A paragraph.",
    "# Heading",
    "- item",
    "- ",
    "12. item",
    "   indented",
    "      deeper",
    "```",
    "```python",
    "   ```sh",
    "````",
    "~~~",
    "~~",
    "`code` in a line",
    "--",
    "---",
    "| a | b |",
    "|---|---|",
    "> quote",
    "x = 1",
    "\ttab",
    "日本語 😀",
]


def blocks(pieces: list[str]) -> list[tuple[str, str]]:
    """The closed blocks that the changes add up to: (`prose` or `code LANGUAGE`, text)."""
    splitter = BlockSplitter()
    changes: list[Change] = []
    for piece in pieces:
        changes += splitter.feed(piece)
    changes += splitter.finish()
    result: list[tuple[str, str]] = []
    open_code: list[str] | None = None
    open_prose = False
    for change in changes:
        match change:
            case ProseChanged():
                assert open_code is None
                open_prose = True
            case ProseClosed(source):
                assert open_code is None
                open_prose = False
                result.append(("prose", source))
            case FenceOpened(language):
                assert not open_prose, "an open prose block would be left on screen"
                open_code = [f"code {language}".strip(), ""]
            case FenceText(text):
                assert open_code is not None
                open_code[1] += text
            case FenceClosed():
                assert open_code is not None
                result.append((open_code[0], open_code[1]))
                open_code = None
    assert not open_prose
    assert open_code is None
    return result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("One.\n\nTwo.", [("prose", "One."), ("prose", "Two.")]),
        ("# Head\nText", [("prose", "# Head\nText")]),
        ("- a\n- b\n\n- c\n\nAfter", [("prose", "- a\n- b\n\n- c"), ("prose", "After")]),
        ("1. a\n\n   more\n\n2. b", [("prose", "1. a\n\n   more\n\n2. b")]),
        ("```python\nx = 1\n\ny\n```\nEnd", [("code python", "x = 1\n\ny"), ("prose", "End")]),
        ("```\n\n\n```", [("code", "\n")]),
        ("```c\nnever closed", [("code c", "never closed")]),
        ("````\n```\n````", [("code", "```")]),
        ("~~~js title\na\n~~~~", [("code js", "a")]),
        ("1. do\n   ```sh\n   ls\n     -l\n   ```\n   then\n2. more", [
            ("prose", "1. do"), ("code sh", "ls\n  -l"), ("prose", "then\n2. more"),
        ]),
        ("a `b\n``` c` d", [("prose", "a `b\n``` c` d")]),
        ("Text:\n\n    indented code", [("prose", "Text:"), ("prose", "    indented code")]),
    ],
)  # fmt: skip
def test_blocks_of_known_texts(text: str, expected: list[tuple[str, str]]) -> None:
    assert blocks([text]) == expected


@given(st.lists(st.sampled_from(LINES), max_size=12), st.data())
def test_any_cutting_of_the_text_gives_the_same_blocks(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert blocks(pieces) == blocks([text])
    assert blocks(list(text)) == blocks([text])


@pytest.mark.parametrize("unsure", ["--", "-", "1.", "``", "```py", "~~~x", "|--", "#", "> "])
def test_a_line_that_may_still_become_something_else_is_held_back(unsure: str) -> None:
    splitter = BlockSplitter()
    splitter.feed("Text\n")
    assert splitter.feed(unsure) == []
    assert splitter.finish()


def test_text_shows_before_its_line_ends() -> None:
    assert BlockSplitter().feed("Dear Se") == [ProseChanged("Dear Se")]


def test_a_long_list_is_ended_at_an_item_so_that_the_open_block_stays_small() -> None:
    items = "\n".join(f"{number}. item {'x' * 60}" for number in range(1, 200))
    sources = [text for _, text in blocks([items])]
    assert len(sources) > 2
    assert max(map(len, sources)) < 4200
    assert "\n".join(sources) == items
