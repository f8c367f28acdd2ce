"""Tier A: whatever source supplied the steps before, the draft proposes what it does in an answer all its own."""

from __future__ import annotations

from itertools import cycle, islice

import mlx.core as mx
import numpy as np
import pytest

from core.engine.decode import Limits, decode
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.sources import PlainSource, SerialSource, Source
from core.protocol import GenerateOptions
from helpers.decoding import ForcedSource, run, same_state
from helpers.tiny import BLOCK

PROMPT = [5, 17, 60, 3, 41, 8, 22]
TOKENS = 32
PATTERNS = [
    ("plain", "serial", "plain", "forced"),
    ("plain", "plain", "plain", "serial"),
    ("forced", "serial"),
    ("serial", "forced", "forced", "plain"),
]


class RecordingSource(SerialSource):
    """The serial source; keeps the draft's logits and its proposals by the position of their anchor."""

    def __init__(self, session, drafter, sampler):
        super().__init__(session, drafter, sampler)
        self.logits: dict[int, np.ndarray] = {}
        self.proposals: dict[int, list[int]] = {}

    def start(self, anchor, rows):
        super().start(anchor, rows)
        block = self._drafter.propose(mx.array([anchor], dtype=mx.uint32), self._session.context, BLOCK - 1)
        self.logits[self._session.length] = np.array(block)

    def collect(self):
        proposals = super().collect()
        self.proposals[self._session.length] = proposals.wait(0.0).tokens
        return proposals


class NoProposals(PlainSource):
    """Plain steps in an answer that others take turns at: it may be asked, and has nothing."""

    def start(self, anchor, rows):
        pass


class SwitchingSource(Source):
    """Every step from another source."""

    mode = "gpu"
    block_size = BLOCK

    def __init__(self, sources):
        self._sources = cycle(sources)

    def start(self, anchor, rows):
        self._now = next(self._sources)
        self._now.start(anchor, rows)

    def collect(self):
        return self._now.collect()


class Answering:
    """A session and the sources that take turns in it."""

    def __init__(self, target, drafter, options, truth):
        self.session = Session(target, drafter)
        self.options = options
        self.sampler = Sampler(options, target.vocab_size)
        self.draft = RecordingSource(self.session, drafter, self.sampler)
        self.forced = ForcedSource(self.session, truth, len(PROMPT), 3, BLOCK)
        self.tokens: list[int] = []
        for _ in self.session.prefill(PROMPT, lambda: False):
            pass

    def decode(self, source, max_tokens, steps=None):
        """At most this many tokens and steps more, from where the answer stands."""
        anchor = [*PROMPT, *self.tokens][-1]
        decoding = decode(self.session, anchor, source, self.sampler, Limits(max_tokens, frozenset(), BLOCK))
        for step in islice(decoding, steps):
            self.tokens += step.tokens
        decoding.close()

    def within_one_answer(self, pattern, tokens):
        sources = {"plain": NoProposals(), "serial": self.draft, "forced": self.forced}
        self.decode(SwitchingSource([sources[name] for name in pattern]), tokens)

    def one_decoding_after_the_other(self, pattern, tokens):
        """Two steps each (the first is a plain one whatever the source), closed with the next pass under way."""
        sources = {"plain": PlainSource(), "serial": self.draft, "forced": self.forced}
        for name in cycle(pattern):
            if len(self.tokens) >= tokens:
                return
            self.decode(sources[name], TOKENS, steps=2)


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["greedy", "seeded"])
def options(request):
    return GenerateOptions(temperature=request.param, seed=2)


@pytest.fixture(scope="module")
def truth(target, drafter, options):
    return run(target, drafter, PROMPT, max_tokens=TOKENS, temperature=options.temperature, seed=options.seed)


@pytest.fixture(scope="module")
def uninterrupted(target, drafter, options, truth):
    """What the draft proposes where it supplies every step."""
    answering = Answering(target, drafter, options, truth.tokens)
    answering.decode(answering.draft, TOKENS)
    assert answering.tokens == truth.tokens
    return answering.draft


@pytest.mark.parametrize("way", [Answering.within_one_answer, Answering.one_decoding_after_the_other])
@pytest.mark.parametrize("pattern", PATTERNS, ids="-".join)
def test_switching_source_at_every_step_leaves_later_proposals_as_they_were(
    target, drafter, options, truth, uninterrupted, pattern, way
):
    answering = Answering(target, drafter, options, truth.tokens)
    way(answering, pattern, TOKENS // 2)
    before = len(answering.tokens)
    answering.decode(answering.draft, TOKENS - before)  # now the draft alone
    assert answering.tokens == truth.tokens[: len(answering.tokens)]

    common = answering.draft.logits.keys() & uninterrupted.logits.keys()
    assert sum(position >= len(PROMPT) + before for position in common) >= 5, "few positions to compare"
    for position in sorted(common):
        assert np.array_equal(answering.draft.logits[position], uninterrupted.logits[position]), position
        pairs = zip(answering.draft.proposals[position], uninterrupted.proposals[position], strict=False)
        assert all(here == there for here, there in pairs), position


@pytest.mark.parametrize("pattern", PATTERNS, ids="-".join)
def test_switching_source_at_every_step_leaves_the_state_of_plain_decoding(target, drafter, options, truth, pattern):
    answering = Answering(target, drafter, options, truth.tokens)
    answering.within_one_answer(pattern, TOKENS)
    assert answering.tokens == truth.tokens
    assert same_state(answering.session, truth.session)
