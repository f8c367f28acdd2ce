"""Tells a model's thinking from its answer while the text streams.

Thinking stands between <think> and </think>, at the beginning of an answer only: later tags are text like any other
(an answer may speak of them). Some templates open it in the prompt already: then the stream begins inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

OPEN = "<think>"
CLOSE = "</think>"


@dataclass(frozen=True)
class Split:
    """New text of each kind."""

    thinking: str = ""
    answer: str = ""


class _State(Enum):
    BEGINNING = auto()
    """Nothing but white space so far: thinking may open."""
    THINKING = auto()
    CLOSED = auto()
    """Behind thinking, before the answer's first character."""
    ANSWER = auto()


class ThinkingSplitter:
    """Sorts pieces of text; what may be the beginning of a tag is held back."""

    def __init__(self, opened: bool) -> None:
        """`opened`: the prompt ends inside thinking."""
        self._state = _State.THINKING if opened else _State.BEGINNING
        self._held = ""

    def add(self, text: str) -> Split:
        """What is certain now and was not returned before."""
        text = self._held + text
        self._held = ""
        if self._state is _State.BEGINNING:
            return self._begin(text)
        if self._state is _State.THINKING:
            return self._think(text)
        return self._answer(text)

    def flush(self) -> Split:
        """The end of the stream: what was held back."""
        held, self._held = self._held, ""
        return Split(thinking=held) if self._state is _State.THINKING else Split(answer=held)

    def _begin(self, text: str) -> Split:
        bare = text.lstrip()
        if bare.startswith(OPEN):
            self._state = _State.THINKING
            return self._think(bare.removeprefix(OPEN))
        if OPEN.startswith(bare):
            self._held = text
            return Split()
        self._state = _State.ANSWER
        return Split(answer=text)

    def _think(self, text: str) -> Split:
        thinking, closed, rest = text.partition(CLOSE)
        if closed:
            self._state = _State.CLOSED
            return Split(thinking, self._answer(rest).answer)
        open_length = next((n for n in range(len(CLOSE) - 1, 0, -1) if text.endswith(CLOSE[:n])), 0)
        certain = len(text) - open_length
        self._held = text[certain:]
        return Split(thinking=text[:certain])

    def _answer(self, text: str) -> Split:
        if self._state is _State.CLOSED:
            text = text.lstrip()
            if text:
                self._state = _State.ANSWER
        return Split(answer=text)
