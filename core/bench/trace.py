"""Traces of real answers: what a pair's draft says at every token of them, kept in a file."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from core.engine.anchors import Anchor, Answer, Guess, branch_keys, record
from core.engine.loader import LoadedPair
from core.engine.prompt import render_prompt
from core.errors import BadRequest, MissingFile, UnreadableModel
from core.protocol import ChatMessage

_T = TypeVar("_T")

KEPT_TRACE = Path(__file__).with_name("demo_trace.xz")
"""Of the demo pair; `scripts/simulate.py --record` made it."""
_STEPS = 255
"""Certainties lie between 1/2 and 1 and are kept in so many steps."""


@dataclass(frozen=True)
class Trace:
    """Answers of one pair, and what its draft says at their tokens."""

    pair: str
    draft_sha256: str
    """Of the draft's weights."""
    block: int
    widths: tuple[int, ...]
    """Rows of a verification at which mode `mirror` can be replayed."""
    prompts: tuple[str, ...]
    answers: tuple[Answer, ...]

    @property
    def anchors(self) -> int:
        """Places at which the draft was asked."""
        return sum(len(answer.anchors) for answer in self.answers)


class _Packed(msgspec.Struct, array_like=True):
    """An answer in the file: all its guesses, one behind the other."""

    tokens: tuple[int, ...]
    ended: bool
    ranks: bytes
    certainties: bytes


class _File(msgspec.Struct):
    pair: str
    draft_sha256: str
    block: int
    widths: tuple[int, ...]
    prompts: tuple[str, ...]
    answers: tuple[_Packed, ...]


def record_trace(
    loaded: LoadedPair, prompts: Sequence[str], max_tokens: int, progress: Callable[[int], None] = lambda _done: None
) -> Trace:
    """Answer every prompt greedily and ask the draft at every token: slow, some twenty blocks of it a token.

    Raises `BadRequest` for a pair whose draft does not run as programs, `ane.AneError` where they fail.
    """
    if loaded.programs is None or loaded.pair.draft is None:
        raise BadRequest(f"{loaded.pair.name} has no draft that runs as programs: there is nothing to record.")
    widths = tuple(range(2, loaded.block_size + 1))
    answers = []
    for done, prompt in enumerate(prompts):
        progress(done)
        ids = render_prompt(loaded.tokenizer, [ChatMessage("user", prompt)]).ids
        answers.append(record(loaded, ids, max_tokens, widths))
    return Trace(
        loaded.pair.name,
        weights_sha256(Path(loaded.pair.draft)),
        loaded.block_size,
        widths,
        tuple(prompts),
        tuple(answers),
    )


def weights_sha256(draft: Path) -> str:
    """Of all weight files of the draft in this folder, in the order of their names."""
    digest = hashlib.sha256()
    for file in sorted(draft.glob("*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def write_trace(trace: Trace, path: Path) -> None:
    """Write it, compressed; certainties lose what is below 0.002."""
    packed = tuple(_pack(answer) for answer in trace.answers)
    file = _File(trace.pair, trace.draft_sha256, trace.block, trace.widths, trace.prompts, packed)
    path.write_bytes(lzma.compress(msgspec.msgpack.encode(file), preset=9))


def read_trace(path: Path = KEPT_TRACE) -> Trace:
    """Raises `MissingFile`, `UnreadableModel`."""
    try:
        file = msgspec.msgpack.decode(lzma.decompress(path.read_bytes()), type=_File)
        answers = tuple(_unpack(answer, file) for answer in file.answers)
    except FileNotFoundError as error:
        raise MissingFile(f"There is no trace {path}.", "Record one with --record FILE.") from error
    except (lzma.LZMAError, msgspec.MsgspecError, ValueError, IndexError) as error:
        raise UnreadableModel(f"The trace {path} is damaged.", "Record it anew with --record.", str(error)) from error
    return Trace(file.pair, file.draft_sha256, file.block, file.widths, file.prompts, answers)


def _pack(answer: Answer) -> _Packed:
    ranks, certainties = bytearray(), bytearray()
    for anchor in answer.anchors:
        ranks += bytes(anchor.in_mlx)
        for guess in (anchor.fresh, *anchor.ahead.values()):
            ranks += bytes(guess.ranks)
            certainties += np.rint((np.array(guess.certainties) * 2 - 1) * _STEPS).astype(np.uint8).tobytes()
    return _Packed(answer.tokens, answer.ended, bytes(ranks), bytes(certainties))


def _unpack(packed: _Packed, file: _File) -> Answer:
    proposals = file.block - 1
    count = len(packed.tokens) - (1 if packed.ended else file.block)
    ranks = iter(packed.ranks)
    certainties = iter(((np.frombuffer(packed.certainties, np.uint8) / _STEPS + 1) / 2).tolist())

    def guess(length: int) -> Guess:
        return Guess(_take(ranks, length), _take(certainties, length))

    anchors = []
    for index in range(count):
        in_mlx = _take(ranks, proposals)
        fresh = guess(proposals)
        keys = branch_keys(file.widths, file.block, len(packed.tokens) - index)
        anchors.append(Anchor(in_mlx, fresh, {(width, known): guess(masks) for width, known, masks in keys}))
    return Answer(packed.tokens, packed.ended, tuple(anchors))


def _take(values: Iterator[_T], count: int) -> tuple[_T, ...]:
    taken = tuple(islice(values, count))
    if len(taken) < count:
        raise ValueError("the file ends too early")
    return taken
