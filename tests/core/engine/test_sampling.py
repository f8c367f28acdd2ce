"""Sampling: draws follow the distribution that the options describe, and depend on seed and position alone."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from core.engine.sampling import MAX_SEED, Sampler
from core.engine.selector import Candidates
from core.errors import BadRequest
from core.protocol import GenerateOptions
from helpers.decoding import forced_source, run, serial_source
from helpers.random_drafts import SECOND
from helpers.tiny import tiny_drafter, tiny_target

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
    counts = np.bincount(draws(2500, seed=3, **options), minlength=len(LOGITS))
    assert_follows(counts, expected(LOGITS, [3], **options))


def test_the_check_itself_finds_a_wrong_temperature():
    counts = np.bincount(draws(2500, seed=3, temperature=1.2), minlength=len(LOGITS))
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


# ------------------------------------------- candidates of the second generation


def candidates(rows=2, anchor=4):
    """Few tokens and sharp edges, so that a row's distribution is another one behind every token."""
    random = np.random.default_rng(2)
    names = ("logits", "rows", "predecessors", "successors")
    shapes = ((rows, 4), (rows, 3), (len(LOGITS), 3), (len(LOGITS), 3))
    made = {name: mx.array(random.standard_normal(shape)) for name, shape in zip(names, shapes, strict=True)}
    tokens = mx.array([random.permutation(len(LOGITS))[:4].tolist() for _ in range(rows)])
    return Candidates(anchor=mx.array([anchor]), tokens=tokens, **made)


def row_of(said, row, before, seen, **options):
    """[vocabulary]: the distribution of one row behind a token, from the definition of the score."""
    a, b = np.array(said.predecessors, np.float64), np.array(said.successors, np.float64)
    tokens, weights = said.tokens[row].tolist(), np.array(said.rows, np.float64)[row]
    scores = [
        float(logit) + sum(a[before, r] * weights[r] * b[token, r] for r in range(len(weights)))
        for token, logit in zip(tokens, said.logits[row].tolist(), strict=True)
    ]
    found = np.zeros(len(LOGITS))
    found[tokens] = expected(scores, [tokens.index(token) for token in seen if token in tokens], **options)
    return found


@pytest.mark.parametrize("options", FILTERS, ids=str)
def test_chosen_candidates_follow_the_distribution_behind_the_one_before(options):
    """Chi-squared of whole paths, each token behind the token drawn before it."""
    said = candidates()
    first = row_of(said, 0, 4, [3], **options)
    paths = np.stack([first[token] * row_of(said, 1, token, [3, token], **options) for token in range(len(LOGITS))])
    counts = np.zeros_like(paths)
    for seed in range(1500):
        one, two = sampler([3], seed=seed, **options).choose_in_turn(said, 20).tolist()
        counts[one, two] += 1
    assert_follows(counts.ravel(), paths.ravel())
    assert abs(paths.sum() - 1) < 1e-9


def test_the_check_of_paths_finds_a_draw_that_forgets_the_one_before():
    said = candidates()
    first = row_of(said, 0, 4, [])
    paths = np.stack([first[token] * row_of(said, 1, 4, []) for token in range(len(LOGITS))])
    counts = np.zeros_like(paths)
    for seed in range(1500):
        one, two = sampler(seed=seed).choose_in_turn(said, 20).tolist()
        counts[one, two] += 1
    with pytest.raises(AssertionError, match="chi-squared"):
        assert_follows(counts.ravel(), paths.ravel())


def test_candidates_are_drawn_with_the_noise_that_the_target_draws_with():
    """Where the candidates' scores are the target's logits, the draft draws what the target does."""
    tokens = mx.array([[3, 5, 0, 1, 4, 2]] * 3)
    logits = mx.take_along_axis(rows(3), tokens, axis=1)
    nothing = mx.zeros((len(LOGITS), 1))
    said = Candidates(mx.array([0]), tokens, logits, mx.zeros((3, 1)), nothing, nothing)
    for seed in range(60):
        made = sampler(seed=seed)
        assert made.choose_in_turn(said, 7).tolist() == made.choose(rows(3), 7, mx.array([0] * 3)).tolist()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_other_choices_of_a_row_are_its_next_best_candidates_in_order(temperature):
    said, made = candidates(rows=4), sampler(temperature=temperature, seed=8)
    tokens, others, certainties = made.choices_in_turn(said, 20, 3)
    assert tokens.tolist() == made.choose_in_turn(said, 20).tolist()
    for row, before in enumerate([4, *tokens.tolist()[:-1]]):
        named = said.tokens[row].tolist()
        scores = np.array(said.scores(row, mx.array([before])))[0]
        if temperature:
            scores = scores + np.array(made._noise_row(20 + row))[named]
        order = np.argsort(-scores)
        assert [tokens[row].item(), *others[row].tolist()] == [named[place] for place in order]
        odds = np.exp(scores[order[:2]])
        assert certainties[row].item() == pytest.approx(odds[0] / odds.sum(), abs=1e-5)
    assert made.choices_in_turn(said, 20, 5)[1][:, 2:].tolist() == [[row[2]] * 3 for row in others.tolist()]


def test_seeds_differ():
    assert draws(60, seed=5) != draws(60, seed=6)
    assert draws(60, seed=MAX_SEED) != draws(60, seed=MAX_SEED - 1)


def test_noise_that_is_no_longer_needed_is_dropped():
    made = sampler()
    made.choose(rows(10), 20, mx.array([0] * 10))
    made.forget_before(27)
    assert sorted(made._noise) == [27, 28, 29]


def test_draft_and_verification_share_the_noise_of_a_position(monkeypatch):
    drawn = []
    gumbel = mx.random.gumbel
    monkeypatch.setattr(
        mx.random, "gumbel", lambda shape, key: drawn.append(tuple(key.tolist())) or gumbel(shape, key=key)
    )
    made = sampler(seed=7)
    draft = made.choose_in_turn(rows(4), 100).tolist()
    assert made.choose(rows(5), 100, mx.array([3] * 5)).tolist()[:4] == draft
    assert drawn == [(7, position) for position in range(100, 105)]  # each row once, under its seed and position


def test_an_answer_keeps_the_noise_of_a_block_at_most(monkeypatch):
    drafter = tiny_drafter(tiny_target())
    kept = []
    forget = Sampler.forget_before

    def forget_and_count(self, position):
        forget(self, position)
        kept.append(len(self._noise))

    monkeypatch.setattr(Sampler, "forget_before", forget_and_count)
    run(drafter._target, drafter, PROMPT, serial_source(drafter), temperature=1.0, max_tokens=30)
    assert 0 < max(kept) <= drafter.block_size


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


# ------------------------------------------------------ samples of real answers


@pytest.mark.parametrize(("generation", "seeds"), [({}, 150), (SECOND, 200)], ids=["first generation", "second"])
def test_samples_of_a_real_draft_follow_the_targets_distribution(generation, seeds):
    """Hot enough for the shared noise to make a random draft right often."""
    target, options = tiny_target(layers=1), {"temperature": 4.0}
    drafter = tiny_drafter(target, num_target_layers=1, target_layer_ids=(0,), **generation)

    def answer(seed):
        return run(target, drafter, PROMPT, serial_source(drafter), max_tokens=9, seed=seed, **options)

    assert_samples_follow(target, answer, options, seeds)


def test_samples_with_every_filter_follow_the_targets_distribution():
    """Here a random draft would never be right: the proposals are right for as many tokens as the seed says."""
    options = {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.3}
    target = tiny_target(layers=1)

    def answer(seed):
        truth = run(target, None, PROMPT, max_tokens=9, seed=seed, **options).tokens
        source = forced_source(truth, len(PROMPT), seed % 4, 4)
        return run(target, None, PROMPT, source, max_tokens=9, seed=seed, **options)

    assert_samples_follow(target, answer, options, seeds=100)


def assert_samples_follow(target, answer, options, seeds):
    """Chi-squared of every token's place in the exact distribution behind the text before it.

    With tokens in order of their probability, the sum of those before the one drawn plus a random share of its own is
    uniform (Rosenblatt, 1952). Which row of a pass a token comes from depends on the tokens before it alone, so each
    row's tokens must follow as well: those of first rows, and those behind accepted proposals.
    """
    random = np.random.default_rng(1)
    first_rows, later_rows = [], []
    for seed in range(seeds):
        sample = answer(seed)
        text = [*PROMPT, *sample.tokens]
        logits = np.array(target.model(mx.array([text]))[0])
        rows = [row for step in sample.steps for row in range(len(step.tokens))]
        for row, at in zip(rows, range(len(PROMPT), len(text)), strict=True):
            distribution = expected(logits[at - 1], sorted(set(text[:at])), **options)
            chance = distribution[text[at]]
            assert chance > 0, "a token outside the distribution was drawn"
            place = distribution[distribution > chance].sum() + random.random() * chance
            (later_rows if row else first_rows).append(place)
    assert len(later_rows) > 200, "without accepted proposals this says nothing of speculation"
    for places in (first_rows, later_rows):
        assert_follows(np.histogram(places, bins=10, range=(0, 1))[0], np.full(10, 0.1))
