"""Splits Markdown into blocks line by line while it streams in, without parsing it. No Qt.

A prose block ends at a blank line (in a list: at a blank line that no item or indented line follows), a code
block at its closing fence. What a line is must be sure before it is shown: an unfinished line of nothing but
markers (`--`, `1.`, ``` `` ```) is held back. No block grows beyond bounds, since the open one is drawn anew with
each frame: a line without end is cut between sentences, a long table goes on under its header.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONG_LINE_CHARS = 1200
"""A line of prose longer than this is cut."""
LONG_BLOCK_CHARS = 4000
"""A block longer than this is ended at its next line; a list, where it can be, at its next item."""
_LONGEST_ITEM_CHARS = 3 * LONG_BLOCK_CHARS
_LONG_TABLE_CHARS = LONG_BLOCK_CHARS // 2
_LONGEST_HEADER_CHARS = LONG_BLOCK_CHARS // 8

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})([^`]*)$")
_ITEM = re.compile(r"^ {0,3}(?:[-*+]|\d{1,9}[.)])(?: |$)")
_TABLE_RULE = re.compile(r"^[ \t|:]*-[\s|:-]*$")
_SENTENCE_END = re.compile(r"[.!?…:;][\"')\]]*\s|[。！？；]")  # noqa: RUF001
_QUOTE_MARKS = re.compile(r"^(?: {0,3}> ?){1,5}")
_SPACE = re.compile(r"\s")
_UNSURE = re.compile(r"^(?:[\s\-=*+_#>|:.~\d)]{0,120}|[ \t]*`+[^`]*|[ \t]*~{3}.*)$")


@dataclass(frozen=True)
class ProseChanged:
    """The open prose block now reads `source`. The first one after another block opens a new block."""

    source: str


@dataclass(frozen=True)
class ProseClosed:
    """The open prose block is complete."""

    source: str
    goes_on: bool = False
    """Whether the block was cut only for its length, so that the next one stands right under it."""


@dataclass(frozen=True)
class FenceOpened:
    """A code block begins."""

    language: str


@dataclass(frozen=True)
class FenceText:
    """More text of the open code block."""

    text: str


@dataclass(frozen=True)
class FenceClosed:
    """The open code block is complete."""


Change = ProseChanged | ProseClosed | FenceOpened | FenceText | FenceClosed


class BlockSplitter:
    """Feed it pieces of any size; it tells what to change. The changes of any cutting add up to the same blocks."""

    def __init__(self) -> None:
        self._line = ""  # the unfinished line
        self._shown_of_line = 0  # characters of it that a code block shows already
        self._prose: list[str] = []  # finished lines of the open prose block
        self._prose_chars = 0
        self._prose_shown = ""
        self._fence = ""  # the marker of the open code block
        self._fence_indent = 0
        self._fence_has_lines = False
        self._item_indent = 0  # of the list item that the last code block stood in
        self._changes: list[Change] = []

    def feed(self, text: str) -> list[Change]:
        """Take the next piece of text."""
        *lines, rest = (self._line + text).split("\n")
        for line in lines:
            self._end_line(line)
            self._shown_of_line = 0
        self._line = rest if self._fence else self._cut(rest)
        self._show_open_line()
        return self._take_changes()

    def finish(self) -> list[Change]:
        """There is no more text: close what is open."""
        if self._line:
            self._end_line(self._line)
            self._line = ""
        if self._fence:
            self._close_fence()
        self._close_prose()
        return self._take_changes()

    def _take_changes(self) -> list[Change]:
        changes, self._changes = self._changes, []
        return changes

    # ------------------------------------------------------------------ lines

    def _end_line(self, line: str) -> None:
        if self._fence:
            if self._closes_fence(line):
                self._close_fence()
            else:
                self._fence_text(line)
                self._fence_has_lines = True
            return
        line = self._cut(line)
        if match := _FENCE.match(line):
            self._open_fence(match)
        else:
            self._end_prose_line(line)

    def _cut(self, line: str) -> str:
        """End blocks within a line that is too long; returns what is left of it. Where depends on the line alone."""
        if len(line) <= LONG_LINE_CHARS:
            return line
        mark = _QUOTE_MARKS.match(line)
        start, prefix = 0, ""
        while len(prefix) + len(line) - start > LONG_LINE_CHARS:
            piece = prefix + line[start : start + LONG_LINE_CHARS - len(prefix)]
            at = _cutting_place(piece)
            self._end_prose_line(piece[:at])
            self._close_prose(goes_on=True)
            start += at - len(prefix)
            prefix = mark.group() if mark else ""
        return prefix + line[start:]

    def _show_open_line(self) -> None:
        if self._fence:
            could_close = not self._line.strip().strip(self._fence[0])
            if not could_close:
                self._fence_text(self._line)
        elif self._line and not _UNSURE.match(self._line):
            line = self._dedented(self._line)
            self._begin_prose_line(line)
            self._show_prose([*self._prose, line])
        elif self._prose:
            self._show_prose(self._prose)

    # ------------------------------------------------------------------ prose

    def _end_prose_line(self, line: str) -> None:
        blank = not line.strip()
        if blank and not self._prose:
            return
        line = self._dedented(line)
        if not blank:
            self._begin_prose_line(line)
        elif not _ITEM.match(self._prose[0]):
            self._close_prose()
            return
        self._prose.append(line)
        self._prose_chars += len(line) + 1

    def _begin_prose_line(self, line: str) -> None:
        """Close the open block where this line does not belong to it."""
        if not self._prose:
            return
        item = bool(_ITEM.match(line))
        after_blank = not self._prose[-1].strip()
        in_list = bool(_ITEM.match(self._prose[0]))
        leaves_list = after_blank and not item and not line.startswith("  ")
        if in_list and leaves_list:
            self._close_prose()
        elif self._prose_chars > _LONG_TABLE_CHARS and self._is_table():
            self._go_on_with_table()
        elif self._prose_chars > (LONG_BLOCK_CHARS if item or not in_list else _LONGEST_ITEM_CHARS):
            self._close_prose(goes_on=True)

    def _is_table(self) -> bool:
        return len(self._prose) > 2 and "|" in self._prose[0] and bool(_TABLE_RULE.match(self._prose[1]))

    def _go_on_with_table(self) -> None:
        """In a block of its own, under the same header."""
        header = self._prose[:2]
        self._close_prose(goes_on=True)
        if sum(map(len, header)) <= _LONGEST_HEADER_CHARS:
            self._prose = header
            self._prose_chars = sum(map(len, header)) + 2

    def _show_prose(self, lines: list[str]) -> None:
        source = "\n".join(lines)
        if source != self._prose_shown:
            self._prose_shown = source
            self._changes.append(ProseChanged(source))

    def _close_prose(self, goes_on: bool = False) -> None:
        if self._prose:
            self._changes.append(ProseClosed("\n".join(self._prose).rstrip(), goes_on))
        self._prose, self._prose_chars, self._prose_shown = [], 0, ""

    def _dedented(self, line: str) -> str:
        """Text that goes on in a list item after its code block stands indented: it is no code."""
        spaces = len(line) - len(line.lstrip(" "))
        if line.strip() and not spaces:
            self._item_indent = 0
        return line[min(self._item_indent, spaces) :]

    # ------------------------------------------------------------------- code

    def _open_fence(self, match: re.Match[str]) -> None:
        self._close_prose()
        indent, self._fence, info = match.groups()
        self._fence_indent = self._item_indent = len(indent)
        self._fence_has_lines = False
        self._changes.append(FenceOpened(info.split()[0] if info.split() else ""))

    def _closes_fence(self, line: str) -> bool:
        stripped = line.strip()
        return len(stripped) >= len(self._fence) and not stripped.strip(self._fence[0])

    def _fence_text(self, line: str) -> None:
        """Show what is new of a line of code: its indent goes with the fence's."""
        removable = min(self._fence_indent, len(line) - len(line.lstrip(" ")))
        start = max(self._shown_of_line, removable)
        text = line[start:]
        if self._shown_of_line == 0 and self._fence_has_lines:
            text = "\n" + text
        if text:
            self._changes.append(FenceText(text))
        self._shown_of_line = len(line)

    def _close_fence(self) -> None:
        self._fence = ""
        self._changes.append(FenceClosed())


def _cutting_place(line: str) -> int:
    """Where to cut a long line: after its last sentence with no mark left open, else after its last word."""
    least = len(line) // 2
    sentences = [match.end() for match in _SENTENCE_END.finditer(line, least)]
    words = [match.end() for match in _SPACE.finditer(line, least)]
    for at in [*reversed(sentences), *reversed(words[-20:])]:
        if _is_balanced(line[:at]):
            return at
    return (sentences or words or [len(line)])[-1]


def _is_balanced(text: str) -> bool:
    """Whether no emphasis, code, formula or link seems to be open at the end."""
    pairs = all(text.count(mark) % 2 == 0 for mark in ("**", "`", "$"))
    return pairs and text.count("[") == text.count("]") and text.count("(") == text.count(")")
