"""Streaming text: from tokens to whole characters, and from text to what lies before a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from core.engine.tokenizer import Tokenizer


class Detokenizer:
    """Turns token ids into text as it becomes certain; all pieces joined equal `Tokenizer.decode` of all ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip_space = tokenizer.strips_first_space

    def add(self, token_id: int) -> str:
        """New text after this token: whole characters only."""
        raw = self._tokenizer.token_bytes(token_id)
        if self._strip_space and raw:
            raw = raw.removeprefix(b" ")
            self._strip_space = False
        return self._decoder.decode(raw)

    def flush(self) -> str:
        """The end: U+FFFD for a character that was left incomplete, else nothing."""
        return self._decoder.decode(b"", final=True)


class StopStrings:
    """Cuts a stream of text right before a stop string, holding back what may be the start of one.

    Of several stop strings the one that is complete first counts, and of those complete at once the longest. So the
    result does not depend on how the text is split, and an answer ends as early as it can.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Empty strings are ignored."""
        self._stops = [stop for stop in stops if stop]
        self._beginnings = {stop[:length] for stop in self._stops for length in range(1, len(stop))}
        self._longest = max(map(len, self._beginnings), default=0)
        self._held = ""
        self._found = False

    @property
    def found(self) -> bool:
        """Whether a stop string was met; everything from it on is dropped."""
        return self._found

    def add(self, text: str) -> str:
        """The part of the text so far that is certain to stand and was not returned before."""
        if self._found:
            return ""
        text = self._held + text
        matches = [(start + len(stop), start) for stop in self._stops if (start := text.find(stop)) >= 0]
        self._found = bool(matches)
        certain = min(matches)[1] if matches else len(text) - self._open_length(text)
        self._held = "" if matches else text[certain:]
        return text[:certain]

    def flush(self) -> str:
        """The end of the stream: what was held back."""
        held, self._held = self._held, ""
        return held

    def _open_length(self, text: str) -> int:
        """Length of the longest end of `text` that a stop string begins with."""
        lengths = range(min(self._longest, len(text)), 0, -1)
        return next((length for length in lengths if text[-length:] in self._beginnings), 0)
