"""The target writes conversations with itself: it invents the user's message, then answers it.

All rows of a batch begin with the same tokens and advance together, one token a step, so nothing is padded: a row
whose message has ended is fed the template's own tokens until its answer begins. Rows that end leave the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from core.engine.prompt import render_prompt
from core.engine.target import Target
from core.engine.tokenizer import Tokenizer
from core.errors import UnsupportedModel
from core.protocol import ChatMessage
from core.training.attention import compiled_attention
from core.training.corpus import LOOP_GRAM, LOOP_SHARE, Conversation
from core.training.recording import Recorder, outputs_of

TEMPERATURES = (0.0, 0.0, 0.6, 0.8)
"""Of the answers, in turn: half are greedy."""
_USER_TOP_P = 0.9
_USER_CANDIDATES = 1024
"""The likeliest tokens among which a user's token is drawn."""
_MAX_USER_TOKENS = 120
_MIN_ANSWER_TOKENS = 16
_IDLE_SHARE = 1 / 12
"""Of rows that have left, at which they are cut out of the batch."""
_PLACE = "the user's message goes here"


@dataclass(frozen=True)
class Frame:
    """The template's tokens around a user's message."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    """From the end of the message to the beginning of the answer."""
    ends: frozenset[int]
    """Tokens that end an answer."""


def chat_frame(tokenizer: Tokenizer) -> Frame:
    """What the chat template writes around a message. Raises `UnsupportedModel` where it cannot be told."""
    text = render_prompt(tokenizer, [ChatMessage("user", _PLACE)]).text
    before, place, between = text.partition(_PLACE)
    if not place or not between:
        raise UnsupportedModel("The chat template of this model changes the user's messages.", "Choose another target.")
    encoded = [tuple(tokenizer.encode(part, parse_special=True)) for part in (before, between)]
    return Frame(encoded[0], encoded[1], tokenizer.eos_ids)


@dataclass
class _Row:
    """One conversation being written."""

    temperature: float
    ids: list[int]
    forced: list[int] = field(default_factory=list)
    answer_start: int = 0
    feature_rows: list[int] = field(default_factory=list)
    over: bool = False
    _grams: set[tuple[int, ...]] = field(default_factory=set)
    _repeated: int = 0

    def circles(self, max_tokens: int) -> bool:
        """Whether the answer repeats itself too much whatever follows (`Conversation.loops`); after each token."""
        if not self.answer_start or len(self.ids) - self.answer_start < LOOP_GRAM:
            return False
        gram = tuple(self.ids[-LOOP_GRAM:])
        self._repeated += gram in self._grams
        self._grams.add(gram)
        return self._repeated > LOOP_SHARE * (max_tokens - self.answer_start - LOOP_GRAM + 1)

    def take(self, token: int, frame: Frame) -> bool:
        """Append the next token; returns whether the conversation has ended."""
        if self.forced:
            self.ids.append(self.forced.pop(0))
            if not self.forced:
                self.answer_start = len(self.ids)
            return False
        if self.answer_start:
            self.ids.append(token)
            return token in frame.ends
        # The message ends where the model would end it, or is cut; the template's own tokens follow either way.
        too_long = len(self.ids) - len(frame.before) >= _MAX_USER_TOKENS
        if too_long or token == frame.between[0] or token in frame.ends:
            self.forced = list(frame.between)
            return self.take(token, frame)
        self.ids.append(token)
        return False

    def go_on(self, token: int, frame: Frame, max_tokens: int) -> bool:
        """Append the next token; `over` says whether it was the last, returns whether there is a conversation then."""
        ended = self.take(token, frame) or len(self.ids) >= max_tokens
        self.over = self.circles(max_tokens) or ended
        return ended

    def is_of_use(self, frame: Frame) -> bool:
        """Whether there is a message and an answer."""
        has_message = self.answer_start > len(frame.before) + len(frame.between)
        return has_message and len(self.ids) - self.answer_start >= _MIN_ANSWER_TOKENS

    def conversation(self) -> Conversation:
        """As it is kept."""
        rows = np.array(self.feature_rows, np.int64)[: len(self.ids) - 1]
        return Conversation(np.array(self.ids, np.uint32), self.answer_start, self.temperature, rows)

    @property
    def is_user(self) -> bool:
        return not self.answer_start and not self.forced


def synthesise(
    target: Target, frame: Frame, seed: Sequence[int], rows: int, max_tokens: int, recorder: Recorder | None = None
) -> list[Conversation]:
    """`rows` conversations of at most `max_tokens` tokens, fewer where some came to nothing; deterministic by seed.

    With a recorder the features of their tokens are kept.
    """
    random = np.random.default_rng(seed)
    temperatures = np.resize(TEMPERATURES, rows)
    batch = [_Row(float(temperature), list(frame.before)) for temperature in temperatures]
    ended: list[_Row] = []
    cache = target.make_cache()
    inputs = mx.array([list(frame.before)] * rows, dtype=mx.uint32)
    with compiled_attention(target), outputs_of(recorder.modules if recorder else ()) as outputs:
        while batch:
            logits = target.model(inputs, cache=cache)[:, -1].astype(mx.float32)
            mx.eval(logits, outputs)
            if recorder:
                _record(recorder, outputs, batch)
            for row, token in zip(batch, _choose(np.array(logits), batch, random), strict=True):
                if not row.over and row.go_on(token, frame, max_tokens):
                    ended.append(row)
            kept = [index for index, row in enumerate(batch) if not row.over]
            if not kept or len(batch) - len(kept) >= _IDLE_SHARE * len(batch):
                batch = [batch[index] for index in kept]
                _keep_rows(cache, kept)
            inputs = mx.array([[row.ids[-1]] for row in batch], dtype=mx.uint32)
    mx.clear_cache()
    return [row.conversation() for row in ended if row.is_of_use(frame)]


def _record(recorder: Recorder, outputs: Sequence[mx.array], batch: Sequence[_Row]) -> None:
    """Keep the features of each row's newest token, or of the tokens that all rows begin with."""
    if outputs[0].shape[1] == 1:
        for row, place in zip(batch, recorder.append([output[:, 0] for output in outputs]), strict=True):
            row.feature_rows.append(place)
    else:
        places = recorder.append([output[0] for output in outputs])
        for row in batch:
            row.feature_rows.extend(places)


def _keep_rows(cache: Sequence[Any], rows: list[int]) -> None:
    """Drop all other rows of a batch from a cache."""
    if rows:
        chosen = mx.array(rows)
        for layer in cache:
            layer.keys, layer.values = layer.keys[chosen], layer.values[chosen]


def _choose(logits: npt.NDArray[np.float32], rows: Sequence[_Row], random: np.random.Generator) -> list[int]:
    """One token a row of [b, vocabulary] logits; every row takes one random number, needed or not.

    On the host: numpy's exponential is many times faster than that of MLX's CPU back end.
    """
    draws = random.random(len(rows))
    greatest = logits.argmax(axis=-1)
    return [
        int(greatest[index])
        if row.over or row.forced or (row.answer_start and not row.temperature)
        else _draw(logits[index], row, draws[index])
        for index, row in enumerate(rows)
    ]


def _draw(logits: npt.NDArray[np.float32], row: _Row, draw: float) -> int:
    """A token by inverting the cumulative distribution."""
    if not row.is_user:
        weights = np.exp((logits - logits.max()) / row.temperature, dtype=np.float64)
        return _invert(weights, draw)
    count = min(_USER_CANDIDATES, len(logits))
    likeliest = np.argpartition(logits, -count)[-count:]
    likeliest = likeliest[np.argsort(-logits[likeliest], kind="stable")]
    weights = np.exp(logits[likeliest] - logits[likeliest[0]], dtype=np.float64)
    before = np.cumsum(weights) - weights
    weights[before >= _USER_TOP_P * weights.sum()] = 0
    return int(likeliest[_invert(weights, draw)])


def _invert(weights: npt.NDArray[np.float64], draw: float) -> int:
    cumulative = np.cumsum(weights)
    return int(np.searchsorted(cumulative, draw * cumulative[-1], side="right"))
