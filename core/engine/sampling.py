"""How a row of logits becomes a token: the greatest, or a draw with noise keyed by position.

Gumbel-max: argmax(logits / T + g) with Gumbel noise g is a draw from softmax(logits / T). The noise depends on seed
and absolute position alone, and draft and verification share it: so a seeded speculative run draws what a seeded
plain run draws, and the draft's own draws are coupled to the target's.
"""

from __future__ import annotations

from typing import Protocol

import mlx.core as mx

from core.errors import BadRequest

MAX_SEED = (1 << 32) - 1


class Sampler(Protocol):
    """Chooses tokens for rows of logits."""

    def choose(self, logits: mx.array, position: int) -> mx.array:
        """[n, vocabulary] logits of positions `position`... to [n] tokens, lazily."""
        ...

    def forget_before(self, position: int) -> None:
        """Positions below this one will not be asked for again."""
        ...


class GreedySampler:
    """The most likely token; the lowest id among equals."""

    def choose(self, logits: mx.array, position: int) -> mx.array:  # noqa: ARG002
        """See `Sampler`."""
        return mx.argmax(logits, axis=-1)

    def forget_before(self, position: int) -> None:
        """Nothing is kept."""


class NoiseSampler:
    """A draw at a temperature, by noise rows that are made once a position."""

    def __init__(self, temperature: float, seed: int) -> None:
        self._temperature = temperature
        self._seed = seed
        self._noise: dict[int, mx.array] = {}

    def choose(self, logits: mx.array, position: int) -> mx.array:
        """See `Sampler`."""
        rows, vocabulary = logits.shape
        noise = mx.stack([self._row(position + row, vocabulary) for row in range(rows)])
        return mx.argmax(logits.astype(mx.float32) / self._temperature + noise, axis=-1)

    def forget_before(self, position: int) -> None:
        """See `Sampler`."""
        for old in [kept for kept in self._noise if kept < position]:
            del self._noise[old]

    def _row(self, position: int, vocabulary: int) -> mx.array:
        if position not in self._noise:
            key = mx.random.key((self._seed << 32) | position)
            self._noise[position] = mx.random.gumbel((vocabulary,), key=key)
        return self._noise[position]


def make_sampler(temperature: float, seed: int) -> Sampler:
    """The sampler for a request. Raises `BadRequest` for a temperature or seed out of range."""
    if not 0 <= temperature <= 10:
        raise BadRequest(f"The temperature must lie between 0 and 10, not {temperature:g}.")
    if not 0 <= seed <= MAX_SEED:
        raise BadRequest(f"The seed must lie between 0 and {MAX_SEED}, not {seed}.")
    return GreedySampler() if temperature == 0 else NoiseSampler(temperature, seed)
