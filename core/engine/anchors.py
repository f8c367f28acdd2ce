"""What a draft says at every place of an answer that is known: enough to replay any way of decoding it.

The text of a greedy answer is fixed, so whether a proposal is right is a fact about text and draft. No time is
measured here, and no machine has a part in it, but for the last bits of its arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx
import msgspec
import numpy as np
import numpy.typing as npt

from core.engine.branches import ALTERNATIVES
from core.engine.context import DraftContext
from core.engine.decode import Limits
from core.engine.drafter_ane import AneDrafter, Rows
from core.engine.drafter_mlx import MlxDrafter
from core.engine.loader import LoadedPair
from core.engine.measure import decode_anew
from core.engine.programs import Programs
from core.engine.session import Session
from core.engine.step_figures import tokens_of
from core.errors import BadRequest

RIGHT, UNTHOUGHT = 0, ALTERNATIVES + 1
"""Ranks: the proposal is the token of the text; neither it nor one of the draft's next choices is."""
_HEAD_ROWS = 32
"""Up to so many rows our kernels compute each to the same bits as alone."""


class Guess(msgspec.Struct, frozen=True, array_like=True):
    """A block of proposals, judged by the text."""

    ranks: tuple[int, ...]
    """By position: `RIGHT`, which of the draft's next choices is right (from 1 on), or `UNTHOUGHT`."""
    certainties: tuple[float, ...]
    """By position: how certain the draft was, as `Sampler.choices_in_turn` tells it."""


@dataclass(frozen=True)
class Anchor:
    """What the draft says when everything before a token of the text is committed."""

    in_mlx: tuple[int, ...]
    """By position behind the token: the ranks of the draft in MLX, `RIGHT` or `UNTHOUGHT`."""
    fresh: Guess
    """What the draft's programs say behind the token."""
    ahead: Mapping[tuple[int, int], Guess]
    """What they say behind the j tokens after it, which they are told without their features; by (width, j).

    That is the branch that comes true when a verification of `width` rows gives j tokens.
    """


@dataclass(frozen=True)
class Answer:
    """A greedy answer to a message."""

    tokens: tuple[int, ...]
    ended: bool
    """Whether the last token is an end of sequence."""
    anchors: tuple[Anchor, ...]
    """Of the first tokens, as far as the text behind them is known."""


def branch_masks(width: int, known: int, block: int) -> int:
    """Masks of the branch for `known` tokens of a verification of `width` rows; see `possible_branches`."""
    return min(width, block - 1 - known)


def branch_keys(widths: Sequence[int], block: int, tokens: int) -> list[tuple[int, int, int]]:
    """(width, j, masks) of the branches that can come true where so many tokens, the anchor's included, are known."""
    return [
        (width, known, branch_masks(width, known, block))
        for width in widths
        for known in range(1, min(width, tokens - 2, block - 2) + 1)
    ]


def record(loaded: LoadedPair, prompt: Sequence[int], max_tokens: int, widths: Sequence[int]) -> Answer:
    """Answer plainly, then ask the draft at every token. `widths` are those that mode `mirror` can be replayed at.

    The pair has programs. Raises `ane.AneError` where they fail, `BadRequest` for a draft whose word at a place depends
    on the tokens before it.
    """
    assert loaded.programs is not None
    assert loaded.drafter is not None
    if loaded.drafter.config.selector_rank:
        raise BadRequest("What this draft says depends on its own choices, so that it cannot be recorded.")
    steps = decode_anew(loaded, prompt, "plain", Limits(max_tokens, loaded.tokenizer.eos_ids, 1))
    tokens = tokens_of(steps)
    ended = steps[-1].finish == "stop"
    count = len(tokens) - (1 if ended else loaded.block_size)
    anchors = _anchors(loaded, loaded.drafter, loaded.programs, prompt, tokens, widths)
    return Answer(tokens, ended, tuple(anchor for anchor, _ in zip(anchors, range(count), strict=False)))


def _anchors(
    loaded: LoadedPair,
    in_mlx: MlxDrafter,
    programs: Programs,
    prompt: Sequence[int],
    tokens: Sequence[int],
    widths: Sequence[int],
) -> Iterator[Anchor]:
    """One token after the other is committed, in passes of one row as plain decoding has them."""
    programs.share_processor(False)
    session = Session(loaded.target, in_mlx)
    session.read(prompt)
    context = session.context
    assert context is not None
    of_mlx = DraftContext(in_mlx.config.num_hidden_layers)  # each form of the draft keeps keys and values of its own
    if context.pending_rows:
        of_mlx.queue(context.pending())
    _commit(session, of_mlx, prompt[-1])
    for index, token in enumerate(tokens):
        logits = in_mlx.propose(mx.array([token], dtype=mx.uint32), of_mlx, in_mlx.block_size - 1)
        assert isinstance(logits, mx.array)
        said = np.array(mx.argmax(logits, axis=-1))
        right = _padded(tokens[index + 1 :], len(said)) == said
        fresh = programs.drafter.block(mx.array([token], dtype=mx.uint32), context)
        guess = _judge(programs.drafter, [fresh], [tokens[index + 1 :]])[0]
        ahead = _ahead(programs.drafter, context, tokens[index:], widths)
        yield Anchor(tuple(np.where(right, RIGHT, UNTHOUGHT).tolist()), guess, ahead)
        _commit(session, of_mlx, token)


def _commit(session: Session, of_mlx: DraftContext, token: int) -> None:
    forward = session.forward(mx.array([token], dtype=mx.uint32))
    mx.eval(forward.taps, mx.argmax(forward.logits, axis=-1))
    session.commit([token], forward.taps)
    of_mlx.queue(forward.taps)


def _ahead(
    drafter: AneDrafter, context: DraftContext, text: Sequence[int], widths: Sequence[int]
) -> dict[tuple[int, int], Guess]:
    """The branches that could come true; `text` begins with the anchor."""
    branches = branch_keys(widths, drafter.block_size, len(text))
    if not branches:
        return {}
    mask = drafter.config.mask_token_id
    blocks = [[*text[: known + 1], *[mask] * masks] for _, known, masks in branches]
    rows = [hidden[-masks:] for hidden, (*_, masks) in zip(_run(drafter, context, blocks), branches, strict=True)]
    truths = [text[known + 1 :] for _, known, _ in branches]
    judged = _judge(drafter, rows, truths)
    return {(width, known): guess for (width, known, _), guess in zip(branches, judged, strict=True)}


def _run(drafter: AneDrafter, context: DraftContext, blocks: Sequence[Sequence[int]]) -> list[Rows]:
    """Blocks behind the context, as many side by side as the programs have columns for: their rows."""
    embedded = np.asarray(drafter.embed(mx.array([token for block in blocks for token in block])).astype(mx.float32))
    owners = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    positions = np.concatenate([np.arange(len(block)) for block in blocks]) + context.length
    hidden = np.empty_like(embedded)
    first = 0
    while first < len(owners):
        # Whole blocks only: up to the first column of the block that does not fit.
        last = len(owners) if len(owners) - first <= drafter.width else int(first + drafter.width)
        while last < len(owners) and owners[last] == owners[last - 1]:
            last -= 1
        side = owners[first:last]
        drafter.running(context).run(
            embedded[first:last], positions[first:last].tolist(), hidden[first:last], mask=side[:, None] == side[None]
        )
        first = last
    return [hidden[owners == owner] for owner in range(len(blocks))]


def _judge(drafter: AneDrafter, blocks: Sequence[Rows], truths: Sequence[Sequence[int]]) -> list[Guess]:
    """Blocks of rows ([n, hidden]) with the text that should stand there; where it has ended, nothing is right."""
    rows = np.concatenate(blocks)
    truth = np.concatenate([_padded(text, len(block)) for block, text in zip(blocks, truths, strict=True)])
    ranks, certainties = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _HEAD_ROWS):
        part = slice(start, start + _HEAD_ROWS)
        logits = np.array(drafter.logits(rows[part]).astype(mx.float32))
        ranks[part], certainties[part] = _ranks(logits, truth[part])
    ends = np.cumsum([len(block) for block in blocks])
    return [
        Guess(tuple(ranks[end - len(block) : end].tolist()), tuple(certainties[end - len(block) : end].tolist()))
        for block, end in zip(blocks, ends, strict=True)
    ]


def _ranks(logits: npt.NDArray[np.float32], truth: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Rows]:
    """[n, vocabulary] logits, which are used up, and [n] tokens (-1 for none): ranks and certainties ([n])."""
    index = np.arange(len(logits))
    first = logits.argmax(axis=1)
    greatest = logits[index, first]
    wanted = np.where(truth < 0, -np.inf, logits[index, truth])
    logits[index, first] = -np.inf
    certainties = 1 / (1 + np.exp(logits.max(axis=1) - greatest))
    ranks = np.minimum(1 + (logits > wanted[:, None]).sum(axis=1), UNTHOUGHT)
    return np.where(first == truth, RIGHT, ranks), certainties


def _padded(text: Sequence[int], count: int) -> npt.NDArray[np.int64]:
    """[count] tokens, -1 behind the text's end."""
    return np.array([*text[:count], *[-1] * (count - len(text))], np.int64)
