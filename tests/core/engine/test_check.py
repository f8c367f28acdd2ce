"""Checking a pair: sound engines pass in every mode, broken ones are found where they go wrong, near-ties are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import mlx.core as mx
import pytest

import ane
from core.bench.prompts import FEW_PROMPTS, PROMPTS
from core.check_messages import Check, CheckedPrompt, CheckStarted, Divergence, Verdict
from core.engine import check
from core.engine import decode as decode_module
from core.engine.check import NEAR_TIE_LOGITS, PairCheck, near_tie_logits
from core.engine.decode import DecodeStep
from core.engine.drafter_ane import AneDrafter
from core.engine.loader import LoadedPair, load_pair_now
from core.engine.rollback import Transaction
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.stats import PlainCost
from core.errors import BadRequest, Cancelled, PromptTooLong
from core.pairs import Pair
from core.protocol import MissingMode, Mode, Progress
from helpers.decoding import run, serial_source
from helpers.letters import letters
from helpers.scripted import CHATML, scripted_pair
from helpers.tiny import BLOCK, tiny_drafter, tiny_target

TOKENS = 24
PROMPT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def loaded(tiny_pair: Pair) -> Iterator[LoadedPair]:
    """A pair with every mode."""
    pair = load_pair_now(tiny_pair)
    yield pair
    pair.close()


@pytest.fixture(scope="module")
def tiny() -> LoadedPair:
    """A pair whose text depends on everything; it has modes plain and gpu."""
    target = tiny_target()
    drafter = tiny_drafter(target)
    return LoadedPair(Pair("tiny", "", ""), target, letters(), drafter, Session(target, drafter), PlainCost())


def events(pair: LoadedPair, *prompts: str, cancelled: Callable[[], bool] = lambda: False, **options: object):
    """All events of a check."""
    options.setdefault("max_tokens", TOKENS)
    return list(PairCheck(pair, Check(pair.pair, prompts or (PROMPT,), **options), cancelled).events())  # type: ignore[arg-type]


def verdict(pair: LoadedPair, *prompts: str, **options: object) -> Verdict:
    last = events(pair, *prompts, **options)[-1]
    assert isinstance(last, Verdict)
    return last


def divergence_of(pair: LoadedPair, **options: object) -> Divergence:
    """Where mode gpu leaves plain decoding on the one prompt."""
    plain, gpu = verdict(pair, modes=("gpu",), **options).modes
    assert (plain.equal, gpu.equal, gpu.prompts) == (1, 0, 1)
    assert plain.first_divergence is None
    assert gpu.first_divergence is not None
    return gpu.first_divergence


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("prompts", [FEW_PROMPTS[::5], pytest.param(PROMPTS, marks=pytest.mark.slow)], ids=len)
def test_the_demo_pair_gives_plain_answers_in_every_mode(demo: LoadedPair, prompts: tuple[str, ...]) -> None:
    """Tier B: equal, or first different at a near-tie, and that rarely."""
    result = verdict(demo, *prompts, max_tokens=12)
    forks = [each.first_divergence for each in result.modes if each.first_divergence]
    print(f"{len(forks)} modes fork: {forks}")
    assert [each.mode for each in result.modes] == ["plain", "lookup", "gpu", "ane", "mirror", "auto"]
    assert result.lossless
    assert all(each.prompts - each.equal <= len(prompts) * 2 // 100 for each in result.modes)
    assert all(each.tokens_per_second > 0 for each in result.modes)
    plain, _, gpu, ane_, mirror, _ = result.modes
    assert (plain.accepted_per_step, plain.hit_rate, gpu.hit_rate, ane_.hit_rate) == (1.0, None, None, None)
    assert gpu.accepted_per_step > 1
    assert mirror.hit_rate is not None
    assert 0 <= mirror.hit_rate <= 1
    assert 0 < mirror.overlap <= 1


def test_seeded_answers_are_equal_in_every_mode(demo: LoadedPair) -> None:
    result = verdict(demo, PROMPTS[0], max_tokens=8, temperature=0.9, seed=7)
    assert [(each.equal, each.first_divergence) for each in result.modes] == [(1, None)] * 6


def test_events_name_each_prompt_and_mode_in_turn(loaded: LoadedPair) -> None:
    first, *pairs, last = events(loaded, "the cat", "the dog", modes=("mirror", "gpu", "gpu"), max_tokens=9)
    assert first == CheckStarted(("plain", "mirror", "gpu"), (), 2)
    asked, answered = pairs[::2], pairs[1::2]
    expected = [(mode, prompt) for prompt in (0, 1) for mode in ("plain", "mirror", "gpu")]
    assert [(event.done, event.total, event.stage) for event in asked if isinstance(event, Progress)] == [
        (done, 6, f"decoding prompt {prompt + 1} in mode {mode}") for done, (mode, prompt) in enumerate(expected)
    ]
    checked = [event for event in answered if isinstance(event, CheckedPrompt)]
    assert [(event.mode, event.prompt) for event in checked] == expected
    assert all(event.tokens == 9 and event.tokens_per_second > 0 and not event.fell_back for event in checked)
    assert [event.accepted_per_step for event in checked if event.mode == "plain"] == [1.0, 1.0]
    assert isinstance(last, Verdict)
    assert len({first, *pairs, last}) == len(pairs) + 2, "all can be hashed"


def test_the_last_conversation_stays_in_the_cache(loaded: LoadedPair) -> None:
    prompt = loaded.tokenizer.encode("the dog sat on the log", parse_special=True)
    list(loaded.session.prefill(prompt, lambda: False))
    kept = list(loaded.session.tokens)
    verdict(loaded)
    assert loaded.session.tokens == kept == prompt[:-1]
    assert loaded.session.length == len(kept)


def test_a_draft_that_reads_the_wrong_layers_is_slower_and_no_difference(tiny: LoadedPair) -> None:
    tiny.target.set_taps((3, 1))
    try:
        result = verdict(tiny, modes=("gpu",))
    finally:
        tiny.target.set_taps((0, 2))
    assert [each.equal for each in result.modes] == [1, 1]


def accept_everything(proposals: list[int], choices: list[int], _eos_ids: frozenset[int]) -> tuple[list[int], int]:
    return [*proposals, choices[-1]], len(proposals)


def keep_every_row(self: Transaction, rows: int) -> None:
    self._queued.popleft()
    self.length += rows


def shift_positions(monkeypatch: pytest.MonkeyPatch, tiny: LoadedPair) -> None:
    """A RoPE offset of one in passes as wide as a verification, which no part of the prompt is."""
    rope = type(tiny.target.layers[0].self_attn.rope)
    call = rope.__call__
    shifted = lambda self, x, offset=0: call(self, x, offset=offset + (x.shape[-2] == BLOCK))  # noqa: E731
    monkeypatch.setattr(rope, "__call__", shifted)


def take_other_noise(monkeypatch: pytest.MonkeyPatch, _tiny: LoadedPair) -> None:
    """The noise of the next position in passes of more than one row."""
    choose = Sampler.choose
    wrong = lambda self, logits, position, inputs: choose(self, logits, position + (len(inputs) > 1), inputs)  # noqa: E731
    monkeypatch.setattr(Sampler, "choose", wrong)


BROKEN: dict[str, Callable[[pytest.MonkeyPatch, LoadedPair], None]] = {
    "accepts everything": lambda patch, _: patch.setattr(decode_module, "_accept", accept_everything),
    "misses a trim": lambda patch, _: patch.setattr(Transaction, "commit", keep_every_row),
    "shifts positions": shift_positions,
    "takes other noise": take_other_noise,
}


@pytest.mark.parametrize(
    ("fault", "temperature"),
    [(fault, t) for fault in BROKEN for t in (0.0, 0.7) if t or fault != "takes other noise"],
)
def test_a_broken_engine_is_found_where_its_answer_goes_wrong(
    tiny: LoadedPair, monkeypatch: pytest.MonkeyPatch, fault: str, temperature: float
) -> None:
    ids = ids_of(tiny)
    plain = run(tiny.target, tiny.drafter, ids, max_tokens=TOKENS, temperature=temperature, seed=5).tokens
    BROKEN[fault](monkeypatch, tiny)
    assert tiny.drafter is not None
    broken = run(
        tiny.target, tiny.drafter, ids, serial_source(tiny.drafter), max_tokens=TOKENS, temperature=temperature, seed=5
    ).tokens
    found = divergence_of(tiny, temperature=temperature, seed=5)
    position = next(at for at, (one, two) in enumerate(zip(plain, broken, strict=False)) if one != two)
    assert (found.prompt, found.position) == (0, position)
    assert (found.plain_token, found.mode_token) == (plain[position], broken[position])
    assert found.plain_said == tiny.tokenizer.token_text(plain[position])
    assert found.mode_said == tiny.tokenizer.token_text(broken[position])
    assert found.margin == pytest.approx(margin(tiny, ids, plain, position, broken[position], temperature), abs=1e-4)
    assert found.near_tie_below == NEAR_TIE_LOGITS
    assert not found.near_tie


def test_what_a_broken_mode_leaves_behind_does_not_reach_plain_decoding(
    tiny: LoadedPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = (PROMPT, "a dog")
    plain = [run(tiny.target, tiny.drafter, ids_of(tiny, prompt), max_tokens=TOKENS).tokens for prompt in prompts]
    monkeypatch.setattr(Transaction, "commit", keep_every_row)
    checked = [
        event
        for event in events(tiny, *prompts, modes=("gpu",))
        if isinstance(event, CheckedPrompt) and event.divergence
    ]
    assert len(checked) == 2
    for event in checked:
        found, text = event.divergence, plain[event.prompt]
        assert found is not None
        assert found.mode_token is not None
        assert found.plain_token == text[found.position]
        ids = ids_of(tiny, prompts[event.prompt])
        assert found.margin == pytest.approx(margin(tiny, ids, text, found.position, found.mode_token), abs=1e-4)


def ids_of(pair: LoadedPair, prompt: str = PROMPT) -> list[int]:
    return pair.tokenizer.encode(prompt, parse_special=True)


def margin(
    pair: LoadedPair, ids: list[int], answer: list[int], position: int, other: int, temperature: float = 0.0
) -> float:
    """By how much the target prefers its token to the other, from one pass over the whole text."""
    text = [*ids, *answer[:position]]
    logits = pair.target.forward(mx.array(text), pair.target.make_cache()).logits[-1]
    if temperature:
        key = mx.random.key((5 << 32) | len(text))
        logits = logits + temperature * mx.random.gumbel((pair.target.vocab_size,), key=key)
    lead: float = (logits[answer[position]] - logits[other]).item()
    return lead


@pytest.mark.parametrize("temperature", [0.0, 1e-6])
def test_a_fork_at_a_near_tie_is_told_as_one(monkeypatch: pytest.MonkeyPatch, temperature: float) -> None:
    """A target with two tokens that are nearly as good as each other, and verifications that say the second best."""
    pair = scripted_pair(CHATML, ["\n", "a", "b", "c", "d", "e", "f"])
    b, other = (pair.tokenizer.encode(letter, parse_special=True)[0] for letter in "bz")
    head = pair.target.model.lm_head
    head.weight[other] = head.weight[b] * (1 - 5e-6)
    choose = Sampler.choose

    def second_best(self: Sampler, logits: mx.array, position: int, inputs: mx.array) -> mx.array:
        best = choose(self, logits, position, inputs)
        forbidden = mx.arange(logits.shape[1])[None] == best[:, None]
        return best if len(inputs) == 1 else choose(self, mx.where(forbidden, -mx.inf, logits), position, inputs)

    monkeypatch.setattr(Sampler, "choose", second_best)
    found = divergence_of(pair, temperature=temperature)
    assert (found.position, found.plain_said, found.mode_said) == (1, "b", "z")
    assert found.margin is not None
    assert 0 < found.margin < NEAR_TIE_LOGITS
    assert found.near_tie
    assert verdict(pair, modes=("gpu",)).lossless


def test_a_real_difference_is_told_before_a_near_tie(tiny: LoadedPair, monkeypatch: pytest.MonkeyPatch) -> None:
    near = Divergence(0, 1, 2, "a", 3, "b", 1e-5, NEAR_TIE_LOGITS, near_tie=True)
    real = Divergence(1, 4, 2, "a", 3, "b", 1.5, NEAR_TIE_LOGITS, near_tie=False)
    monkeypatch.setattr(decode_module, "_accept", accept_everything)
    monkeypatch.setattr(PairCheck, "_divergence", lambda _self, prompt, *_: (near, real)[prompt])
    _, gpu = verdict(tiny, PROMPT, "a dog", modes=("gpu",)).modes
    assert (gpu.first_divergence, gpu.equal, gpu.prompts) == (real, 0, 2)
    _, gpu = verdict(tiny, modes=("gpu",)).modes
    assert gpu.first_divergence == near
    assert gpu.lossless


@pytest.mark.parametrize("cut", ["plain", "gpu"])
def test_an_answer_that_ends_too_soon_differs(tiny: LoadedPair, monkeypatch: pytest.MonkeyPatch, cut: str) -> None:
    whole = check.decode_anew

    def cut_off(pair: LoadedPair, ids: tuple[int, ...], mode: Mode, *rest: Any) -> list[DecodeStep]:
        return whole(pair, ids, mode, *rest)[: -1 if mode == cut else None]

    monkeypatch.setattr(check, "decode_anew", cut_off)
    found = divergence_of(tiny)
    ended, other = (found.plain_token, found.mode_token)[:: 1 if cut == "plain" else -1]
    assert ended is None
    assert other is not None
    assert (found.margin, found.near_tie) == (None, False)


def test_coarse_logits_are_near_ties_a_few_steps_apart() -> None:
    assert near_tie_logits(mx.array(16.0)) == NEAR_TIE_LOGITS
    assert near_tie_logits(mx.array(-16.0, dtype=mx.bfloat16)) == 4 * 16 * 2**-7
    assert near_tie_logits(mx.array(16.0, dtype=mx.float16)) == 4 * 16 * 2**-10
    assert near_tie_logits(mx.array(0.0, dtype=mx.bfloat16)) == NEAR_TIE_LOGITS


def test_programs_that_fail_are_told_and_change_no_answer(loaded: LoadedPair, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ane.AneError("The device is gone.")

    monkeypatch.setattr(AneDrafter, "block", fail)
    checked = [event for event in events(loaded) if isinstance(event, CheckedPrompt)]
    told = {event.mode: event.fell_back for event in checked}
    assert all(event.divergence is None for event in checked)
    assert "The device is gone." in told["ane"]
    assert "The device is gone." in told["mirror"]
    assert (told["plain"], told["gpu"]) == ("", "")
    assert "The device is gone." in told["auto"] or not told["auto"], "a change of mind is no failure"


def test_it_stops_between_any_two_passes(tiny: LoadedPair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_module, "_accept", accept_everything)  # so that margins are computed too
    whole = events(tiny, max_tokens=6, modes=("gpu",))
    for calls in count():
        left = iter(range(calls))
        seen = []
        try:
            check_ = PairCheck(
                tiny, Check(tiny.pair, (PROMPT,), 6, ("gpu",)), lambda left=left: next(left, None) is None
            )  # type: ignore[misc]
            seen.extend(check_.events())
        except Cancelled:
            assert calls < 40
            continue
        break
    assert calls > 10
    assert [type(event) for event in seen] == [type(event) for event in whole]
    monkeypatch.undo()
    assert verdict(tiny, modes=("gpu",)).lossless


def test_modes_that_are_missing_are_told_with_their_reason(tiny: LoadedPair) -> None:
    missing = dict.fromkeys(("ane", "mirror"), "No programs.")
    partly = replace(tiny, missing=missing)
    started = events(partly)[0]
    assert isinstance(started, CheckStarted)
    assert started.modes[:3] == ("plain", "lookup", "gpu")
    assert not {"ane", "mirror"} & {*started.modes}
    assert started.missing == (MissingMode("ane", "No programs."), MissingMode("mirror", "No programs."))
    with pytest.raises(BadRequest, match="cannot decode in mode ane: No programs"):
        events(partly, modes=("gpu", "ane"))


def test_without_a_draft_prompt_lookup_is_compared(tiny: LoadedPair) -> None:
    plain = replace(tiny, drafter=None, session=Session(tiny.target, None))
    assert [each.mode for each in verdict(plain).modes] == ["plain", "lookup", "auto"]
    assert verdict(plain).lossless
    with pytest.raises(BadRequest, match="has no draft"):
        events(plain, modes=("gpu",))
    with pytest.raises(BadRequest, match="a mode beside plain"):
        events(plain, modes=("plain",))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_tokens": 0}, BadRequest),
        ({"temperature": -1.0}, BadRequest),
        ({"temperature": float("nan")}, BadRequest),
        ({"seed": -1}, BadRequest),
    ],
    ids=str,
)
def test_impossible_options_are_refused_before_anything_is_decoded(
    tiny: LoadedPair, options: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        PairCheck(tiny, Check(tiny.pair, (PROMPT,), **options), lambda: False)  # type: ignore[arg-type]


def test_what_gives_nothing_to_compare_is_refused_before_anything_is_decoded(tiny: LoadedPair) -> None:
    with pytest.raises(PromptTooLong, match="Prompt 2 has 600 tokens"):
        PairCheck(tiny, Check(tiny.pair, (PROMPT, "a" * 600)), lambda: False)
    with pytest.raises(BadRequest, match="a mode beside plain"):
        PairCheck(tiny, Check(tiny.pair, (PROMPT,), modes=("plain",)), lambda: False)
    with pytest.raises(BadRequest, match="at least one prompt"):
        PairCheck(tiny, Check(tiny.pair, ()), lambda: False)
