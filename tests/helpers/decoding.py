"""Runs of the decode loop, and a source of proposals that is right for exactly as many tokens as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest

from core.engine.decode import DecodeStep, Limits, decode
from core.engine.drafter import Drafter
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.sources import PlainSource, Proposals, QueuedProposals, SerialSource, Source
from core.engine.target import Target
from core.protocol import GenerateOptions, Mode


class AnchorDiffers(Exception):
    """The run has left the text that its source proposes from."""


class ForcedSource(Source):
    """Proposes what plain decoding gave, right for exactly `right` tokens a block and wrong from there on."""

    mode: Mode = "gpu"

    def __init__(self, session: Session, truth: Sequence[int], prompt_length: int, right: int, block_size: int) -> None:
        self.block_size = block_size
        self._session = session
        self._truth = truth
        self._prompt_length = prompt_length
        self._right = right
        self._rows = 0

    def start(self, anchor: int, rows: int) -> None:
        if anchor != self._truth[self._known - 1]:
            raise AnchorDiffers
        self._rows = rows

    @property
    def _known(self) -> int:
        """Tokens of the answer up to the anchor."""
        return self._session.length - self._prompt_length + 1

    def collect(self) -> Proposals | None:
        block = [*self._truth[self._known : self._known + self._rows]]
        block += [0] * (self._rows - len(block))
        wrong = [token if index < self._right else token ^ 1 for index, token in enumerate(block)]
        return QueuedProposals(mx.array(wrong, dtype=mx.uint32), began_s=0.0)


MakeSource = Callable[[Session, Sampler], Source]


@dataclass
class Run:
    """One decoded answer."""

    session: Session
    steps: list[DecodeStep]

    @property
    def tokens(self) -> list[int]:
        return [token for step in self.steps for token in step.tokens]

    @property
    def finish(self) -> str | None:
        return self.steps[-1].finish


def plain_source(_session: Session, _sampler: Sampler) -> Source:
    return PlainSource()


def serial_source(drafter: Drafter) -> MakeSource:
    return lambda session, sampler: SerialSource(session, drafter, sampler)


def forced_source(truth: Sequence[int], prompt_length: int, right: int, block_size: int) -> MakeSource:
    return lambda session, _sampler: ForcedSource(session, truth, prompt_length, right, block_size)


def run(
    target: Target,
    drafter: Drafter | None,
    prompt: Sequence[int],
    make_source: MakeSource = plain_source,
    *,
    max_tokens: int = 40,
    width: int = 16,
    eos_ids: frozenset[int] = frozenset(),
    session: Session | None = None,
    **options: float,
) -> Run:
    """Decode an answer to `prompt` in a new session, or in the one given; `options` are those of sampling."""
    session = session or Session(target, drafter)
    sampler = Sampler(GenerateOptions(**options), target.vocab_size)  # type: ignore[arg-type]
    for _ in session.prefill(prompt, lambda: False):
        pass
    source = make_source(session, sampler)
    limits = Limits(max_tokens, eos_ids, width)
    return Run(session, list(decode(session, prompt[-1], source, sampler, limits)))


def three_tokens_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text is one of the tokens 0, 1 and 2: it repeats itself all the time, though not for ever."""
    scores = Sampler.scores

    def allowed(self: Sampler, logits: mx.array, position: int) -> mx.array:
        return scores(self, mx.where(mx.arange(logits.shape[-1]) < 3, logits, -1e9), position)

    monkeypatch.setattr(Sampler, "scores", allowed)


def cached(session: Session) -> list[npt.NDArray[np.float32]]:
    """All committed K/V of the target, and those of the draft's context once ingested: [1, heads, positions, dim]."""
    caches = [*session._transaction.caches]
    if session.drafter and session.context:
        session.drafter.ingest(session.context)
        caches += session.context.caches
    return [np.array(part[..., : cache.offset, :]) for cache in caches for part in (cache.keys, cache.values)]


def same_state(session: Session, other: Session) -> bool:
    """Whether both hold the same tokens, and bit-equal K/V of target and draft for each of them."""
    if session.tokens != other.tokens or not session.length == other.length == len(session.tokens):
        return False
    return all(np.array_equal(a, b) for a, b in zip(cached(session), cached(other), strict=True))
