"""Long lines and long texts cut for display: a view lays a line out whole, in the time of all its letters. No Qt."""

from __future__ import annotations

LONG_LINE_CHARS = 4000


class LineBreaker:
    """Breaks lines longer than `LONG_LINE_CHARS` in a text that comes in pieces."""

    def __init__(self) -> None:
        self._line_chars = 0  # of the last line

    def broken(self, text: str) -> str:
        """The next piece, with line breaks where a line would be too long."""
        lines: list[str] = []
        for line in text.split("\n"):
            if lines:
                self._line_chars = 0
            pieces, start = [], 0
            while self._line_chars + len(line) - start > LONG_LINE_CHARS:
                end = start + LONG_LINE_CHARS - self._line_chars
                pieces.append(line[start:end])
                start, self._line_chars = end, 0
            pieces.append(line[start:])
            self._line_chars += len(line) - start
            lines.append("\n".join(pieces))
        return "\n".join(lines)


def parts(text: str, most_chars: int) -> list[str]:
    """The text in parts of at most so many characters: cut at line ends, else at spaces, else anywhere.

    The line end or space at a cut is dropped: the parts are shown below each other.
    """
    result: list[str] = []
    start = 0
    while len(text) - start > most_chars:
        least = start + most_chars // 2
        end = max(text.rfind("\n", least, start + most_chars), -1)
        if end < 0:
            end = text.rfind(" ", least, start + most_chars)
        if end < 0:
            result.append(text[start : start + most_chars])
            start += most_chars
        else:
            result.append(text[start:end])
            start = end + 1
    return [*result, text[start:]]
