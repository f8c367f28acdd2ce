"""Words for the search: how texts are cut into them, queries, and where they were found."""

from __future__ import annotations

import re

from core.chats.model import Piece
from core.chats.text import storable

# Scripts without spaces between words (Thai to Khmer, CJK, Hangul) and emoji, whose every character is a word here.
_ALONE = re.compile(
    "(["
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2190-\u2bff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\uff66-\uff9f\U0001f000-\U0001faff\U00020000-\U0003ffff"
    "])"
)
_BORDER = "\x1f"  # no letter: ends a word; taken out of what is shown
FOUND_BEGINS, FOUND_ENDS = "\x02", "\x03"
_OURS = str.maketrans({FOUND_BEGINS: _BORDER, FOUND_ENDS: _BORDER})
_QUERY_CHARACTERS = 500


def segment(text: str) -> str:
    """`text` with borders around characters that are words of their own. Stored files rely on it: it never changes."""
    text = text.translate(_OURS) if FOUND_BEGINS in text or FOUND_ENDS in text else text
    return text if text.isascii() else _ALONE.sub(f"{_BORDER}\\1{_BORDER}", text)


def query(text: str) -> str | None:
    """An FTS5 query for texts that have all the words, the last one perhaps not typed to its end.

    None where there is nothing to look for. Whatever the user types is words, never an operator.
    """
    words = [segment(word).replace('"', '""') for word in storable(text[:_QUERY_CHARACTERS]).split()]
    return " ".join(f'"{word}"' for word in words) + "*" if words else None


def pieces(marked: str) -> tuple[Piece, ...]:
    """A text with `FOUND_BEGINS` and `FOUND_ENDS` in it, cut there."""
    result: list[Piece] = []
    for number, part in enumerate(re.split(f"[{FOUND_BEGINS}{FOUND_ENDS}]", marked.replace(_BORDER, ""))):
        if part:
            result.append(Piece(part, found=number % 2 == 1))
    return tuple(result)
