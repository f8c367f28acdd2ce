"""What a training run reads: conversations, written by the target just before they are needed, each used once.

They are written here, or by a process of their own while the run trains on those before (`writer.py`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from core.engine.target import Target
from core.errors import UselessConversations
from core.training.corpus import (
    Conversation,
    Corpus,
    Ids,
    Manifest,
    read_conversations,
    without_loops,
    write_conversations,
)
from core.training.objective import Features
from core.training.recording import Recorder
from core.training.settings import Settings
from core.training.synthesis import Frame, synthesise
from core.training.writer import Writer

_FREQUENT_TOKENS = 4096
_LONG_EVERY = 4
_PATIENCE = 8
"""Batches of conversations without a usable one after which the run gives up."""
_TRAINING, _HELD_OUT = 0, 1
"""Branches of the seed: no held-out conversation is ever trained on."""


class Lesson(NamedTuple):
    """A conversation to train on, and what the target made of its tokens but the last."""

    conversation: Conversation
    features: Features


class Feed:
    """Conversations in an order that depends on the target, its taps and the seed alone."""

    def __init__(
        self, folder: Path, settings: Settings, target: Target, frame: Frame, writer: Writer | None = None
    ) -> None:
        """`folder` is the run's; a `writer` writes its shards, ahead of time. Its taps have to be on.

        Raises `BadRequest` where the corpus is another target's.
        """
        self.shard = 0
        self.used = 0
        """Conversations of the shard that have been handed out."""
        self._folder = folder
        self._settings = settings
        self._target = target
        self._frame = frame
        self._writer = writer
        self._corpus = Corpus(folder / "corpus", Manifest(fingerprint(target), target.vocab_size, settings.seed))
        self._read: tuple[int, list[Conversation]] | None = None

    def take(self, count: int) -> list[Lesson]:
        """The next conversations, from one shard; what is left of a shard that has too few is passed over.

        Raises `UselessConversations`.
        """
        last = self.shard + _PATIENCE
        while self.used + count > len(self._conversations()):
            if self.shard == last:
                raise _useless(self._corpus.folder)
            self.shard, self.used = self.shard + 1, 0
        taken = self._conversations()[self.used : self.used + count]
        self.used += count
        return [Lesson(conversation, self._features(conversation)) for conversation in taken]

    def forget_before(self, shard: int) -> None:
        """Delete what is large of earlier shards."""
        self._corpus.drop_features_before(shard)

    def write(self, shard: int) -> None:
        """Write a shard unless it is there."""
        if self._corpus.complete(shard):
            return
        long = shard % _LONG_EVERY == _LONG_EVERY - 1
        max_tokens = self._settings.max_tokens if long else self._settings.max_tokens // 2
        rows = self._settings.shard_rows // 2 if long else self._settings.shard_rows
        seed = [self._settings.seed, _TRAINING, shard]
        path = self._corpus.features_path(shard)
        scratch = path.with_suffix(".partial")
        with scratch.open("wb") as file:
            written = synthesise(self._target, self._frame, seed, rows, max_tokens, Recorder(self._target, file))
        scratch.replace(path)
        write_conversations(self._corpus.path(shard), written)

    def _conversations(self) -> list[Conversation]:
        """The current shard's, loops left out, in a random order."""
        if self._read is None or self._read[0] != self.shard:
            self._obtain(self.shard)
            usable = list(without_loops(self._corpus.shard(self.shard)))
            order = np.random.default_rng([self._settings.seed, _TRAINING, self.shard, 1]).permutation(len(usable))
            self._read = self.shard, [usable[index] for index in order]
        return self._read[1]

    def _obtain(self, shard: int) -> None:
        """See to it that a shard is there, and that the next one is being written."""
        if self._writer is None:
            self.write(shard)
        else:
            self._writer.wait_for(shard)
            self._writer.ask_for(shard + 1)

    def _features(self, conversation: Conversation) -> Features:
        taps, hidden = len(self._target.taps), self._target.hidden_size
        rows = mx.array(self._corpus.features(self.shard, conversation.feature_rows, (taps + 1, hidden)))
        rows = rows.astype(self._target.dtype)
        return Features(tuple(rows[:, tap] for tap in range(taps)), rows[:, taps])

    def held_out(self) -> list[Conversation]:
        """Greedy conversations without loops, as many as the settings say; written once.

        Raises `UselessConversations`.
        """
        path = self._folder / "heldout.npz"
        if not path.is_file():
            chosen: list[Conversation] = []
            batch = 0
            while len(chosen) < self._settings.held_out:
                if batch >= _PATIENCE and not chosen:
                    raise _useless(self._folder)
                seed = [self._settings.seed, _HELD_OUT, batch]
                written = synthesise(
                    self._target, self._frame, seed, self._settings.shard_rows, self._settings.max_tokens // 2
                )
                chosen += [conversation for conversation in without_loops(written) if not conversation.temperature]
                batch += 1
            write_conversations(path, chosen[: self._settings.held_out])
        return read_conversations(path)

    def frequent_tokens(self) -> Ids:
        """The commonest tokens of the first shard, sorted by id."""
        if not self._corpus.path(0).is_file():
            self._obtain(0)
        counts = np.bincount(np.concatenate([c.ids for c in self._corpus.shard(0)]), minlength=self._target.vocab_size)
        commonest = np.argsort(-counts, kind="stable")[:_FREQUENT_TOKENS]
        return np.sort(commonest[counts[commonest] > 0]).astype(np.uint32)


def _useless(folder: Path) -> UselessConversations:
    return UselessConversations(
        "The target's conversations with itself are too short or go in circles: there is nothing to train on.",
        "Choose an instruct model with a chat template of its own.",
        str(folder),
    )


def fingerprint(target: Target) -> str:
    """A short hash of a sample of the embedding and of the final norm: which model wrote a corpus."""
    sample = target.embed(mx.arange(0, target.vocab_size, max(1, target.vocab_size // 64)))
    digest = hashlib.sha256(np.array(sample.astype(mx.float32)).tobytes())
    digest.update(np.array(target.final_norm.weight.astype(mx.float32)).tobytes())
    return digest.hexdigest()[:16]
