"""Tier A for every family: speculative decoding gives the plain text, whatever caches the target keeps.

The order in which a window's rows are summed differs between passes, so logits may differ in their last bits; these
texts have no tie so near.
"""

from __future__ import annotations

import random
from functools import cache

import pytest

from core.engine.decode import Limits, decode
from core.engine.recurrence import Recorder
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.sliding_cache import SlidingCache
from core.engine.sources import PlainSource
from core.engine.target import Target
from core.protocol import GenerateOptions
from helpers.decoding import AnchorDiffers, ForcedSource, MakeSource, run, serial_source
from helpers.families import DRAFTED, FAMILIES, KINDS, QUANTISED, family_target, quantised_target
from helpers.tiny import BLOCK, VOCABULARY, tiny_drafter

TEXT_TOKENS = 20
SAMPLED = {"temperature": 1.0, "seed": 4}
"""Some families' greedy texts repeat one token, and would hide a wrong state."""


@pytest.fixture(autouse=True)
def _little_room(monkeypatch):
    """Buffers of sliding windows are moved often, and marks lie close to the end."""
    monkeypatch.setattr("core.engine.sliding_cache.SPARE_ROWS", 2)
    monkeypatch.setattr("core.engine.sliding_cache._GROWTH_ROWS", 4)
    monkeypatch.setattr("core.engine.session._MARK_ROWS", 3)


@cache
def target_of(family: str) -> Target:
    return family_target(family)


class PatternSource(ForcedSource):
    """Right for another number of tokens in every block."""

    def __init__(self, session: Session, truth: list[int], prompt_length: int, pattern: random.Random) -> None:
        super().__init__(session, truth, prompt_length, 0, BLOCK)
        self._pattern = pattern

    def start(self, anchor: int, rows: int) -> None:
        self._right = self._pattern.randint(0, BLOCK)
        super().start(anchor, rows)


def patterned(truth: list[int], prompt_length: int, seed: int) -> MakeSource:
    return lambda session, _sampler: PatternSource(session, truth, prompt_length, random.Random(seed))


def random_prompt(chance: random.Random) -> list[int]:
    return [chance.randrange(2, VOCABULARY) for _ in range(chance.randint(1, 24))]


def sampling(seed: int) -> dict[str, float]:
    return {"temperature": 1.0, "seed": seed} if seed % 2 else {"temperature": 0.0}


def check_prompts(family: str, seeds: range) -> None:
    """Plain and forced answers to one prompt a seed."""
    target = target_of(family)
    for seed in seeds:
        prompt, options = random_prompt(random.Random(seed)), sampling(seed)
        plain = run(target, None, prompt, max_tokens=TEXT_TOKENS, **options)
        source = patterned(plain.tokens, len(prompt), seed)
        forced = run(target, None, prompt, source, max_tokens=TEXT_TOKENS, width=2 + seed % BLOCK, **options)
        assert forced.tokens == plain.tokens, f"seed {seed}"
        assert len(forced.steps) < len(plain.steps)


@pytest.mark.parametrize("family", FAMILIES)
def test_forced_acceptance_gives_the_plain_text(family):
    check_prompts(family, range(2))


@pytest.mark.parametrize(("family", "quantisation"), QUANTISED, ids=str)
def test_forced_acceptance_gives_the_plain_text_of_quantised_targets(family, quantisation):
    target = quantised_target(family, **quantisation)
    for seed in range(2):
        prompt, options = random_prompt(random.Random(seed)), sampling(seed)
        plain = run(target, None, prompt, max_tokens=TEXT_TOKENS, **options)
        source = patterned(plain.tokens, len(prompt), seed)
        assert run(target, None, prompt, source, max_tokens=TEXT_TOKENS, **options).tokens == plain.tokens


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("family", FAMILIES)
def test_forced_acceptance_gives_the_plain_text_of_many_prompts(family):
    """Two hundred for each kind of state and each family with drafts; others that keep the same have fewer."""
    check_prompts(family, range(200 if family in {*KINDS, *DRAFTED} else 40))


@pytest.mark.parametrize("family", sorted({*KINDS, *DRAFTED}))
def test_two_drafts_in_a_row_read_their_own_taps(family):
    target, prompt = family_target(family), [5, 17, 60, 3, 41]
    proposals = {}
    for taps in ((0, 2), (1, 3)):
        drafter = tiny_drafter(target, target_layer_ids=taps)
        plain = run(target, drafter, prompt, max_tokens=TEXT_TOKENS, temperature=1.0)
        drafted = run(target, drafter, prompt, serial_source(drafter), max_tokens=TEXT_TOKENS, temperature=1.0)
        assert drafted.tokens == plain.tokens
        proposals[taps] = [step.proposals for step in drafted.steps]
    alone = tiny_drafter(family_target(family), target_layer_ids=(1, 3))
    drafted = run(alone._target, alone, prompt, serial_source(alone), max_tokens=TEXT_TOKENS, temperature=1.0)
    assert [step.proposals for step in drafted.steps] == proposals[1, 3] != proposals[0, 2]


def second_turns(prompt: list[int], answer: list[int]) -> dict[str, list[int]]:
    return {
        "the same prompt": prompt,
        "goes on": [*prompt, *answer, 9, 8, 7],
        "the answer's end was edited": [*prompt, *answer[:-4], 9, 8, 7],
        "the answer's opening was left out": [*prompt[:-2], 9, 8, *answer, 7],
        "edited early": [*prompt[:4], 9, 8, 7],
    }


@pytest.mark.parametrize("family", KINDS)
def test_a_second_turn_gives_what_a_fresh_session_gives(family):
    target, prompt = target_of(family), [5, 17, 60, 3, 41, 8, 22, 31, 9, 77, 2]
    answer = run(target, None, prompt, max_tokens=TEXT_TOKENS, **SAMPLED).tokens
    for name, second in second_turns(prompt, answer).items():
        session = Session(target, None)
        run(target, None, prompt, patterned(answer, len(prompt), 1), max_tokens=TEXT_TOKENS, session=session, **SAMPLED)
        again = run(target, None, second, max_tokens=8, session=session, **SAMPLED)
        fresh = run(target, None, second, max_tokens=8, **SAMPLED)
        assert again.tokens == fresh.tokens, name
        assert again.session.tokens == fresh.session.tokens, name


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("right", [2, 7])
def test_an_end_of_text_inside_a_block_leaves_a_sound_session(family, right):
    target, prompt = target_of(family), [5, 17, 60, 3, 41, 8, 22]
    text = run(target, None, prompt, max_tokens=TEXT_TOKENS, **SAMPLED).tokens
    place = next(i for i in range(3, TEXT_TOKENS) if text[i] not in text[:i])
    session = Session(target, None)
    source = ForcedSource(session, text, len(prompt), right, BLOCK)
    eos = frozenset([text[place]])
    ended = run(target, None, prompt, lambda *_: source, eos_ids=eos, session=session, **SAMPLED)
    assert (ended.tokens, ended.finish) == (text[: place + 1], "stop")
    second = [*prompt, *ended.tokens, 4, 6]
    again = run(target, None, second, max_tokens=8, session=session, **SAMPLED)
    assert again.tokens == run(target, None, second, max_tokens=8, **SAMPLED).tokens


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("speculative", [False, True])
def test_an_answer_left_in_the_middle_leaves_a_sound_session(family, steps, speculative):
    """As a cancelled one does, or one that a stop string ends: committed tokens may lie behind the text shown."""
    target, prompt = target_of(family), [5, 17, 60, 3, 41, 8, 22]
    text = run(target, None, prompt, max_tokens=TEXT_TOKENS, **SAMPLED).tokens
    for hidden in (0, 2):
        session, sampler = Session(target, None), Sampler(GenerateOptions(**SAMPLED), target.vocab_size)
        list(session.prefill(prompt, lambda: False))
        source = PatternSource(session, text, len(prompt), random.Random(3)) if speculative else PlainSource()
        decoding = decode(session, prompt[-1], source, sampler, Limits(TEXT_TOKENS, frozenset(), BLOCK))
        given = [token for _ in range(steps) for token in next(decoding).tokens]
        decoding.close()
        assert session.tokens == [*prompt, *given[:-1]]
        second = [*prompt, *given[: max(len(given) - hidden, 0)], 4, 6]
        again = run(target, None, second, max_tokens=8, session=session, **SAMPLED)
        assert again.tokens == run(target, None, second, max_tokens=8, **SAMPLED).tokens


class TestBrokenEnginesAreFound:
    """Tier C: what must fail does fail, so that the tests above mean something."""

    @pytest.mark.parametrize("family", ["qwen3_5", "lfm2", "mamba2", "rwkv7"])
    def test_a_recurrent_state_that_is_put_back_and_not_advanced(self, family, monkeypatch):
        monkeypatch.setattr(Recorder, "replay", lambda _self, _recording, _rows: None)
        assert self.fails(family)

    @pytest.mark.parametrize("family", ["qwen3_5", "lfm2", "mamba2", "rwkv7"])
    def test_a_recurrent_state_that_is_advanced_by_a_row_too_few(self, family, monkeypatch):
        replay = Recorder.replay
        monkeypatch.setattr(Recorder, "replay", lambda self, recording, rows: replay(self, recording, max(rows - 1, 1)))
        assert self.fails(family)

    @pytest.mark.parametrize("family", ["llama, sliding", "gpt_oss"])
    def test_a_window_that_forgets_to_drop_rows(self, family, monkeypatch):
        def trim(self, n):
            self.offset -= n
            return n

        monkeypatch.setattr(SlidingCache, "trim", trim)
        assert self.fails(family)

    @staticmethod
    def fails(family):
        try:
            check_prompts(family, range(1, 8, 2))
        except (AssertionError, AnchorDiffers):
            return True
        return False
