"""How a row of logits becomes a token: the greatest, or a draw with noise keyed by position.

Gumbel-max: argmax(x + g) with Gumbel noise g is a draw from softmax(x). The noise depends on seed and absolute
position alone, and draft and verification share it: so a seeded speculative run draws what a seeded plain run draws,
and the draft's own draws are coupled to the target's.

The order is that of Hugging Face transformers: repetition penalty, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from core.engine.selector import Candidates, Said
from core.errors import BadRequest
from core.protocol import GenerateOptions

MAX_SEED = (1 << 32) - 1


class Sampler:
    """Chooses tokens for rows of logits, each row by the text before it, its position, and the options."""

    def __init__(self, options: GenerateOptions, vocab_size: int) -> None:
        """`vocab_size` columns of the logits. Raises `BadRequest` for an option out of range."""
        _check(options)
        self._options = options
        self._noise: dict[int, mx.array] = {}
        self._vocab_size = vocab_size
        self._seen = np.zeros(vocab_size, dtype=np.bool_)

    def observe(self, tokens: Sequence[int]) -> None:
        """These tokens are certain now: prompt and answer so far, for the repetition penalty."""
        if self._options.repetition_penalty != 1:
            self._seen[list(tokens)] = True

    def choose(self, logits: mx.array, position: int, inputs: mx.array) -> mx.array:
        """[n, vocabulary] logits of positions `position`... to [n] tokens, lazily.

        `inputs` [n] are the tokens that the pass reads: row i assumes what was observed and inputs 0..i.
        """
        if self._options.repetition_penalty != 1:
            columns = mx.arange(self._vocab_size)
            read = mx.cumsum((inputs[:, None] == columns).astype(mx.int32), axis=0) > 0
            logits = self._penalised(logits, read | mx.array(self._seen))
        return mx.argmax(self.scores(logits, position), axis=-1)

    def choose_in_turn(self, said: Said, position: int) -> mx.array:
        """As `choose`, for a draft's block: row i assumes what was observed and the choices of rows 0..i-1."""
        if isinstance(said, Candidates):
            return self._walk(said, position, 0)[0][:, 0]
        return mx.argmax(self._scores_in_turn(said, position), axis=-1)

    def choices_in_turn(self, said: Said, position: int, others: int) -> tuple[mx.array, mx.array, mx.array]:
        """As `choose_in_turn` ([n]), what would come next were the choice forbidden ([n, others], best first), and how
        certain the choice is ([n]): its share of the odds of itself and the next, with the noise in them.

        Where a draft names fewer than `others` + 1 candidates, its last stands for those that are missing.
        """
        if isinstance(said, Candidates):
            tokens, best = self._walk(said, position, others)
            return tokens[:, 0], tokens[:, 1:], mx.sigmoid(best[:, 0] - best[:, min(1, others)])
        scores = self._scores_in_turn(said, position).astype(mx.float32)
        columns = mx.arange(self._vocab_size)
        ranked = [mx.argmax(scores, axis=-1)]
        greatest = [scores.max(axis=-1)]
        for _ in range(others):
            scores = mx.where(columns == ranked[-1][:, None], -math.inf, scores)
            ranked.append(mx.argmax(scores, axis=-1))
            greatest.append(scores.max(axis=-1))
        return ranked[0], mx.stack(ranked[1:], axis=1), mx.sigmoid(greatest[0] - greatest[1])

    def scores(self, logits: mx.array, position: int) -> mx.array:
        """[n, vocabulary] logits of positions `position`..., already penalised, to scores; lazily.

        The greatest of a row is where the token is that is chosen: logits over the temperature with the noise, or the
        logits themselves at temperature 0.
        """
        if self._options.temperature == 0:
            return logits
        scores = self._filtered(logits.astype(mx.float32) / self._options.temperature)
        return scores + mx.stack([self._noise_row(position + row) for row in range(scores.shape[0])])

    def _walk(self, said: Candidates, position: int, others: int) -> tuple[mx.array, mx.array]:
        """From the anchor on, each row's best candidate behind the one before it: [n, others + 1] tokens and scores,
        best first, of which the first of a row is chosen.

        The filters know no other tokens than the candidates.
        """
        seen, before = mx.array(self._seen), said.anchor
        tokens: list[mx.array] = []
        best: list[mx.array] = []
        for row in range(len(said)):
            candidates, scores = said.tokens[row], said.scores(row, before)
            if self._options.repetition_penalty != 1:
                scores = self._penalised(scores, seen[candidates])
            if self._options.temperature > 0:
                scores = self._filtered(scores / self._options.temperature)
                scores = scores + self._noise_row(position + row)[candidates]
            ranks = mx.minimum(mx.arange(others + 1), len(candidates) - 1)
            order = mx.argsort(-scores[0])[ranks]
            tokens.append(candidates[order])
            best.append(scores[0, order])
            before = tokens[-1][:1]
            if self._options.repetition_penalty != 1:
                seen = seen | (mx.arange(self._vocab_size) == before)
        return mx.stack(tokens), mx.stack(best)

    def forget_before(self, position: int) -> None:
        """Positions below this one will not be asked for again."""
        for old in [kept for kept in self._noise if kept < position]:
            del self._noise[old]

    def _scores_in_turn(self, logits: mx.array, position: int) -> mx.array:
        if self._options.repetition_penalty == 1:
            return self.scores(logits, position)
        seen, columns = mx.array(self._seen), mx.arange(self._vocab_size)
        rows: list[mx.array] = []
        for row in range(logits.shape[0]):
            scores = self.scores(self._penalised(logits[row : row + 1], seen), position + row)
            seen = seen | (columns == mx.argmax(scores, axis=-1))
            rows.append(scores)
        return mx.concatenate(rows)

    def _penalised(self, logits: mx.array, seen: mx.array) -> mx.array:
        """Repetition penalty (Keskar et al., 2019): what was seen loses, whatever the sign of its logit."""
        penalty = self._options.repetition_penalty
        return mx.where(seen, mx.where(logits > 0, logits / penalty, logits * penalty), logits)

    def _filtered(self, scores: mx.array) -> mx.array:
        """[n, vocabulary] scores with all but the allowed tokens at minus infinity. Equals share one fate."""
        options = self._options
        if 0 < options.top_k < scores.shape[-1]:
            least = mx.partition(scores, -options.top_k, axis=-1)[:, -options.top_k, None]
            scores = mx.where(scores < least, -math.inf, scores)
        if options.top_p < 1:
            ordered = mx.sort(scores, axis=-1)[:, ::-1]
            weights = mx.softmax(ordered, axis=-1)
            before = mx.cumsum(weights, axis=-1) - weights
            least = mx.min(mx.where(before < options.top_p, ordered, math.inf), axis=-1, keepdims=True)
            scores = mx.where(scores < least, -math.inf, scores)
        if options.min_p > 0:
            least = mx.max(scores, axis=-1, keepdims=True) + math.log(options.min_p)
            scores = mx.where(scores < least, -math.inf, scores)
        return scores

    def _noise_row(self, position: int) -> mx.array:
        if position not in self._noise:
            key = mx.random.key((self._options.seed << 32) | position)
            self._noise[position] = mx.random.gumbel((self._vocab_size,), key=key)
        return self._noise[position]


def _check(options: GenerateOptions) -> None:
    for name, value, least, most in (
        ("temperature", options.temperature, 0, 10),
        ("seed", options.seed, 0, MAX_SEED),
        ("top-k", options.top_k, 0, 1 << 24),
        ("top-p", options.top_p, 1e-6, 1),
        ("min-p", options.min_p, 0, 1),
        ("repetition penalty", options.repetition_penalty, 0.1, 10),
    ):
        if not least <= value <= most:  # NaN lies nowhere
            raise BadRequest(f"The {name} must lie between {least:g} and {most:g}, not {value:g}.")
