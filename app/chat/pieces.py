"""A complete answer in pieces that are shown one by one, the last ones first. No Qt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.chat.blocks import BlockSplitter, Change, FenceOpened, FenceText, ProseClosed

RUN_CHARS = 4000
"""A run of prose longer than this goes on in another view, so that each is built and laid out quickly."""

CODE_CHARS = 5000
"""Code is added to a view in pieces of about this length."""


@dataclass(frozen=True)
class Prose:
    """Consecutive blocks of Markdown."""

    blocks: tuple[ProseClosed, ...]


@dataclass(frozen=True)
class Code:
    """A code block."""

    language: str
    text: str


Piece = Prose | Code


def pieces(text: str) -> list[Piece]:
    """The pieces of an answer's Markdown, in order."""
    splitter = BlockSplitter()
    return _gather([*splitter.feed(text), *splitter.finish()])


def ends_run(chars: int, block: ProseClosed) -> bool:
    """Whether a run of `chars` that ends in `block` is long enough; within a paragraph later, since a gap shows."""
    return chars > (2 * RUN_CHARS if block.goes_on else RUN_CHARS)


def condensed(changes: list[Change]) -> Iterator[Change]:
    """The same changes, with the lines of code joined to pieces of about `CODE_CHARS`."""
    code: list[str] = []
    chars = 0
    for change in changes:
        if isinstance(change, FenceText):
            code.append(change.text)
            chars += len(change.text)
        if code and (chars > CODE_CHARS or not isinstance(change, FenceText)):
            yield FenceText("".join(code))
            code, chars = [], 0
        if not isinstance(change, FenceText):
            yield change
    if code:
        yield FenceText("".join(code))


def _gather(changes: list[Change]) -> list[Piece]:
    result: list[Piece] = []
    run: list[ProseClosed] = []
    language, code = "", list[str]()

    def end_run() -> None:
        if run:
            result.append(Prose(tuple(run)))
            run.clear()

    def end_code() -> None:
        if code:
            result.append(Code(language, "".join(code)))
            code.clear()

    for change in changes:
        match change:
            case ProseClosed():
                end_code()
                run.append(change)
                if ends_run(sum(len(block.source) for block in run), change):
                    end_run()
            case FenceOpened(opened):
                end_run()
                end_code()
                language, code = opened, [""]
            case FenceText(text):
                code.append(text)
    end_run()
    end_code()
    return result
