"""Sampling: draws follow the distribution that the options describe, and depend on seed and position alone."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from core.engine.sampling import MAX_SEED, Sampler
from core.errors import BadRequest
from core.protocol import GenerateOptions
from helpers.decoding import forced_source, run, serial_source
from helpers.tiny import VOCABULARY, tiny_drafter, tiny_target

PROMPT = [5, 17, 60, 3]
LOGITS = np.array([1.0, 0.0, -1.0, 2.0, 0.5, 1.9])
FILTERS = [
    {},
    {"temperature": 0.5},
    {"temperature": 2.0},
    {"top_k": 3},
    {"top_k": 100},
    {"top_p": 0.7},
    {"top_p": 0.01},
    {"min_p": 0.3},
    {"repetition_penalty": 1.8},
    {"temperature": 0.8, "top_k": 4, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.3},
]


def expected(logits, seen, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0):
    """The distribution, token by token as the options are defined."""
    scores = np.array(logits, dtype=np.float64)
    for token in seen:
        scores[token] = scores[token] / repetition_penalty if scores[token] > 0 else scores[token] * repetition_penalty
    scores = scores / temperature
    order = np.argsort(-scores)
    keep = list(order[: top_k or None])
    weights = np.exp(scores[keep] - scores.max())
    weights /= weights.sum()
    keep = [token for token, before in zip(keep, np.cumsum(weights) - weights, strict=True) if before < top_p]
    keep = [token for token in keep if np.exp(scores[token] - scores.max()) >= min_p]
    result = np.zeros(len(scores))
    result[keep] = np.exp(scores[keep] - scores.max())
    return result / result.sum()


def sampler(seen=(), **options):
    made = Sampler(GenerateOptions(**{"temperature": 1.0, **options}), len(LOGITS))
    made.observe(seen)
    return made


def rows(count):
    return mx.broadcast_to(mx.array(LOGITS), (count, len(LOGITS)))


def draws(count, position=0, inputs=None, **options):
    inputs = mx.array([3] * count) if inputs is None else inputs
    return sampler(**options).choose(rows(count), position, inputs).tolist()


def assert_follows(counts, distribution):
    """Chi-squared at one in ten thousand; bins that expect fewer than five are put together."""
    total = counts.sum()
    assert counts[distribution == 0].sum() == 0, "a token outside the distribution was drawn"
    order = np.argsort(distribution)
    bins, seen, wanted = [], 0, 0.0
    for token in order[distribution[order] > 0]:
        seen, wanted = seen + counts[token], wanted + total * distribution[token]
        if wanted >= 5:
            bins.append((seen, wanted))
            seen, wanted = 0, 0.0
    bins[-1] = (bins[-1][0] + seen, bins[-1][1] + wanted)
    freedom = len(bins) - 1
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in bins)
    # Wilson and Hilferty's approximation of the chi-squared quantile at 0.9999 (normal quantile 3.719).
    limit = freedom * (1 - 2 / (9 * freedom) + 3.719 * np.sqrt(2 / (9 * freedom))) ** 3 if freedom else 1e-9
    assert statistic <= limit, f"chi-squared {statistic:.1f} of {freedom} degrees of freedom, limit {limit:.1f}"


@pytest.mark.parametrize("options", FILTERS, ids=str)
def test_draws_follow_the_distribution_of_the_options(options):
    counts = np.bincount(draws(5000, seed=3, **options), minlength=len(LOGITS))
    assert_follows(counts, expected(LOGITS, [3], **options))


def test_the_check_itself_finds_a_wrong_temperature():
    counts = np.bincount(draws(5000, seed=3, temperature=1.2), minlength=len(LOGITS))
    with pytest.raises(AssertionError, match="chi-squared"):
        assert_follows(counts, expected(LOGITS, [3]))


def test_greedy_takes_the_most_likely_token_and_the_lowest_among_equals():
    assert draws(3, temperature=0.0) == [3, 3, 3]
    assert Sampler(GenerateOptions(), 3).choose(mx.array([[1.0, 5.0, 5.0]]), 0, mx.array([0])).tolist() == [1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_each_row_is_penalised_by_the_prefix_it_assumes(temperature):
    inputs = [3, 5, 0, 4]
    options = {"temperature": temperature, "repetition_penalty": 3.0, "seed": 9}
    together = draws(4, position=50, inputs=mx.array(inputs), seen=[1], **options)
    for row in range(4):
        alone = sampler(seen=[1, *inputs[:row]], **options)
        (choice,) = alone.choose(rows(1), 50 + row, mx.array(inputs[row : row + 1])).tolist()
        assert choice == together[row]
    if temperature == 0:
        assert together == [5, 0, 3, 3]


def test_a_drafts_rows_are_penalised_by_its_own_choices():
    made = sampler(seen=[3], temperature=0.0, repetition_penalty=10.0)
    assert made.choose_in_turn(rows(4), 0).tolist() == [5, 0, 4, 3]
    assert sampler(temperature=0.0).choose_in_turn(rows(2), 0).tolist() == [3, 3]


@pytest.mark.parametrize("options", [{}, {"top_p": 0.8, "repetition_penalty": 1.5}], ids=str)
def test_a_row_depends_on_its_position_not_on_the_pass_it_stands_in(options):
    whole = draws(30, position=100, seed=5, **options)
    for start, count in ((100, 1), (103, 8), (117, 13)):
        assert draws(count, position=start, seed=5, **options) == whole[start - 100 : start - 100 + count]


def test_seeds_differ():
    assert draws(60, seed=5) != draws(60, seed=6)
    assert draws(60, seed=MAX_SEED) != draws(60, seed=MAX_SEED - 1)


def test_noise_that_is_no_longer_needed_is_dropped():
    made = sampler()
    made.choose(rows(10), 20, mx.array([0] * 10))
    made.forget_before(27)
    assert sorted(made._noise) == [27, 28, 29]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 11),
        ("temperature", float("nan")),
        ("seed", -1),
        ("seed", MAX_SEED + 1),
        ("top_k", -1),
        ("top_p", 0),
        ("top_p", 1.1),
        ("min_p", -0.1),
        ("repetition_penalty", 0),
        ("repetition_penalty", float("inf")),
    ],
)
def test_values_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(BadRequest, match=name.replace("_", "[- ]")):
        Sampler(GenerateOptions(**{name: value}), 10)


@pytest.mark.slow
def test_speculative_samples_follow_the_targets_distribution():
    """The third token of an answer, over many seeds, against the exact mixture over its first two tokens."""
    target, options = tiny_target(), {"temperature": 1.0}
    drafter = tiny_drafter(target)

    def answer(seed):
        return run(target, drafter, PROMPT, serial_source(drafter), max_tokens=3, seed=seed, **options)

    assert_samples_follow(target, answer, options, seeds=500, accepted_least=20)


@pytest.mark.slow
def test_speculative_samples_with_every_filter_follow_the_targets_distribution():
    """Here a random draft would never be right: the proposals are right for as many tokens as the seed says."""
    options = {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.3}
    target = tiny_target()

    def answer(seed):
        truth = run(target, None, PROMPT, max_tokens=3, seed=seed, **options).tokens
        source = forced_source(truth, len(PROMPT), seed % 3, 3)
        return run(target, None, PROMPT, source, max_tokens=3, seed=seed, **options)

    assert_samples_follow(target, answer, options, seeds=500, accepted_least=300)


def assert_samples_follow(target, answer, options, seeds, accepted_least):
    counts, accepted = np.zeros(VOCABULARY), 0
    for seed in range(seeds):
        sample = answer(seed)
        counts[sample.tokens[2]] += 1
        accepted += sum(step.accepted for step in sample.steps)
    assert accepted >= accepted_least, "without accepted proposals this says nothing of speculation"
    assert_follows(counts, third_token(target, PROMPT, options))


def third_token(target, prompt, options):
    """The exact distribution of the third token: the mixture over all first and second tokens."""
    everything = range(VOCABULARY)
    (after_prompt,) = next_tokens(target, [prompt], options)
    after_first = next_tokens(target, [[*prompt, first] for first in everything], options)
    result = np.zeros(VOCABULARY)
    for first in everything:
        after_second = next_tokens(target, [[*prompt, first, second] for second in everything], options)
        result += after_prompt[first] * after_first[first] @ after_second
    return result


def next_tokens(target, texts, options):
    """[texts, vocabulary]: the distribution of the token after each of the texts."""
    logits = np.array(target.model(mx.array(texts))[:, -1])
    return np.array([expected(row, sorted(set(text)), **options) for row, text in zip(logits, texts, strict=True)])
