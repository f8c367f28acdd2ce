"""Streaming text: from tokens to whole characters, and from text to what lies before a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from core.engine.tokenizer import Tokenizer


class Detokenizer:
    """Turns token ids into text as it becomes certain; all pieces joined equal `Tokenizer.decode` of all ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        raise NotImplementedError

    def add(self, token_id: int) -> str:
        """New text after this token: whole characters only."""
        raise NotImplementedError

    def flush(self) -> str:
        """The end: U+FFFD for a character that was left incomplete, else nothing."""
        raise NotImplementedError


class StopStrings:
    """Cuts a stream of text right before the first stop string, holding back what may be the start of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        """Empty strings are ignored."""
        raise NotImplementedError

    @property
    def found(self) -> bool:
        """Whether a stop string was met; everything after it is dropped."""
        raise NotImplementedError

    def add(self, text: str) -> str:
        """The part of the text so far that is certain to stand and was not returned before."""
        raise NotImplementedError

    def flush(self) -> str:
        """The end of the stream: what was held back."""
        raise NotImplementedError
