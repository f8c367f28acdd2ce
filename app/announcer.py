"""Tells screen readers an answer while it is written: sentence by sentence, politely, without Markdown's signs."""

from __future__ import annotations

import re
from collections.abc import Callable

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget

from app.language import tr

_END = re.compile("[.!?…]+[\"'”\u2019)\\]*_]*(?=\\s)|[。\uff01\uff1f]+(?=[^。\uff01\uff1f])|\n")
_NUMBER = re.compile(r"\s*\d+\.$")
_SIGNS = re.compile(r"[*_`#>|~]+")
_FENCE = re.compile(r"\s*(```|~~~)")


class Sentences:
    """Cuts a growing text into sentences as they become complete. Code is named, not read."""

    def __init__(self) -> None:
        self._rest = ""
        self._in_code = False

    def feed(self, text: str) -> list[str]:
        """The sentences that `text` completes."""
        self._rest += text
        found: list[str] = []
        start = at = 0
        while (end := _END.search(self._rest, at)) is not None:
            at = end.end()
            piece = self._rest[start:at]
            whole_line = piece.endswith("\n")
            if self._waits(piece, whole_line):
                continue
            start = at
            found += self._take(piece)
        self._rest = self._rest[start:]
        return found

    def finish(self) -> list[str]:
        """What is left at the end."""
        rest, self._rest = self._rest, ""
        return self._take(rest)

    def _waits(self, piece: str, whole_line: bool) -> bool:
        """Code and fences go by lines; the number of a list's item belongs to what follows it."""
        by_lines = self._in_code or _FENCE.match(piece) is not None
        return not whole_line and (by_lines or _NUMBER.match(piece) is not None)

    def _take(self, piece: str) -> list[str]:
        if _FENCE.match(piece):
            self._in_code = not self._in_code
            return [tr("Code.")] if self._in_code else []
        words = "" if self._in_code else _SIGNS.sub("", piece).strip()
        return [words] if any(map(str.isalnum, words)) else []


def announce(widget: QWidget, text: str) -> None:
    """Have a screen reader say `text` when it has finished what it says now."""
    event = QAccessibleAnnouncementEvent(widget, text)
    event.setPoliteness(QAccessible.AnnouncementPoliteness.Polite)
    QAccessible.updateAccessibility(event)


class Announcer:
    """Announces one answer after another, where a screen reader listens."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._sentences = Sentences()

    def begin(self) -> None:
        """A new answer."""
        self._sentences = Sentences()

    def add(self, text: str) -> None:
        """The next piece of the answer."""
        if QAccessible.isActive():
            for sentence in self._sentences.feed(text):
                self._say(sentence)

    def end(self, last_words: str) -> None:
        """The answer has ended."""
        if QAccessible.isActive():
            for sentence in [*self._sentences.finish(), last_words]:
                self._say(sentence)
