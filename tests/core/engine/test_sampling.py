"""Sampling: draws follow the softmax, and depend on seed and position alone."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from core.engine.sampling import MAX_SEED, make_sampler
from core.errors import BadRequest

LOGITS = mx.array([1.0, 0.0, -1.0, 2.0, 0.5])


def draws(temperature, seed, rows, position):
    return make_sampler(temperature, seed).choose(mx.broadcast_to(LOGITS, (rows, 5)), position).tolist()


def test_greedy_takes_the_most_likely_token():
    assert draws(0.0, 0, 4, 9) == [3, 3, 3, 3]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_softmax(temperature):
    count = 20_000
    seen = np.bincount(draws(temperature, 3, count, 0), minlength=5)
    weights = np.exp(np.array(LOGITS) / temperature)
    expected = count * weights / weights.sum()
    chi_squared = ((seen - expected) ** 2 / expected).sum()
    assert chi_squared < 23.5, "four degrees of freedom: above that once in 10,000 seeds"


def test_a_row_depends_on_its_position_not_on_the_pass_it_stands_in():
    whole = draws(1.0, 5, 30, 100)
    for start, rows in ((100, 1), (103, 8), (117, 13)):
        assert draws(1.0, 5, rows, start) == whole[start - 100 : start - 100 + rows]


def test_seeds_differ():
    assert draws(1.0, 5, 60, 0) != draws(1.0, 6, 60, 0)
    assert draws(1.0, MAX_SEED, 60, 0) != draws(1.0, MAX_SEED - 1, 60, 0)


def test_noise_that_is_no_longer_needed_is_dropped():
    sampler = make_sampler(1.0, 0)
    sampler.choose(mx.broadcast_to(LOGITS, (10, 5)), 20)
    sampler.forget_before(27)
    assert sorted(sampler._noise) == [27, 28, 29]


@pytest.mark.parametrize(("temperature", "seed"), [(-0.1, 0), (11, 0), (float("nan"), 0), (1, -1), (1, MAX_SEED + 1)])
def test_values_out_of_range_are_refused(temperature, seed):
    with pytest.raises(BadRequest):
        make_sampler(temperature, seed)
