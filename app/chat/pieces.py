"""A complete answer in pieces that are shown one by one, the last ones first. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

from app.chat.blocks import BlockSplitter, Change, FenceOpened, FenceText, ProseClosed

RUN_CHARS = 4000
"""A run of prose longer than this goes on in another view, so that each is built and laid out quickly."""


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
