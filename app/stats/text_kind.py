"""What kind of text an answer is in at each step: prose, code or thinking. No Qt."""

from __future__ import annotations

from typing import Literal

from core.protocol import Step

TextKind = Literal["code", "prose", "thinking"]


class TextKinds:
    """Follows the text of an answer. A fence of Markdown (``` or ~~~ at a line's start) begins and ends code."""

    def __init__(self) -> None:
        self._line = ""
        self._fence = ""

    def of(self, step: Step) -> TextKind:
        """Of the text as it stood when the step began."""
        kind: TextKind = "thinking" if step.thinking else "code" if self._fence else "prose"
        *ended, rest = (self._line + step.text).split("\n")
        for line in ended:
            self._take(line.strip())
        self._line = rest[:80]  # of an endless line the beginning is enough
        return kind

    def _take(self, line: str) -> None:
        if self._fence:
            if line.startswith(self._fence) and not line.strip(self._fence[0]):
                self._fence = ""
        elif line.startswith(("```", "~~~")):
            self._fence = line[:3]
