"""One step of training: gradients over a few conversations, AdamW, and a running average of the weights.

The average is what the draft is worth at any moment, without waiting for the learning rate to fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import optimizers
from mlx.utils import tree_flatten, tree_map, tree_unflatten

from core.engine.drafter_mlx import DFlashDraft
from core.engine.target import Target
from core.training.blocks import SHORT_SHARE, draw_blocks
from core.training.corpus import Ids
from core.training.feed import Lesson
from core.training.objective import Batch, loss_sum, make_batch, step_vocabulary
from core.training.settings import Settings

_BETAS = [0.9, 0.95]
_WEIGHT_DECAY = 0.01
_WARM_UP_STEPS = 50
_GREATEST_NORM = 1.0
_AVERAGE_DECAY = 0.998
_WHOLE_VOCABULARY_EVERY = 16
"""Steps. The others train against the frequent tokens and those of their conversations."""


class Learner:
    """Trains `draft`, whose embedding and LM head are the target's and stay as they are."""

    def __init__(self, draft: DFlashDraft, target: Target, settings: Settings) -> None:
        self.draft = draft
        self.step = 0
        """Steps done."""
        self._target = target
        self._settings = settings
        self._optimiser = optimizers.AdamW(_schedule(settings), betas=_BETAS, weight_decay=_WEIGHT_DECAY)
        self._optimiser.init(draft.trainable_parameters())
        self._average: Any = tree_map(lambda weight: weight + 0, draft.trainable_parameters())
        self._value_and_gradients = mx.compile(mx.value_and_grad(self._loss))
        self._compiled_update = mx.compile(self._updated)

    def learn(self, lessons: Sequence[Lesson], frequent: Ids) -> float:
        """One step; the mean loss of a row."""
        random = np.random.default_rng([self._settings.seed, self.step])
        columns = self.draft.config.block_size // (2 if random.random() < SHORT_SHARE else 1)
        vocabulary = step_vocabulary([lesson.conversation for lesson in lessons], frequent, self._target.vocab_size)
        if self.step % _WHOLE_VOCABULARY_EVERY == _WHOLE_VOCABULARY_EVERY - 1:
            vocabulary = np.arange(self._target.vocab_size, dtype=np.uint32)
        weights = self.draft.trainable_parameters()
        gradients, loss, weight = None, 0.0, 0.0
        for conversation, features in lessons:
            count = self._settings.blocks_a_conversation
            blocks = draw_blocks(conversation, count, columns, self.draft.config.mask_token_id, random)
            batch = make_batch(self.draft, self._target, features, blocks, vocabulary)
            (part, part_weight), found = self._value_and_gradients(weights, *batch)
            gradients = found if gradients is None else tree_map(mx.add, gradients, found)
            mx.eval(part, part_weight, gradients)
            loss += float(np.array(part))
            weight += float(np.array(part_weight))
        self._update(weights, gradients, weight)
        self.step += 1
        return loss / weight

    def averaged(self) -> dict[str, mx.array]:
        """The averaged weights by name."""
        return dict(tree_flatten(self._average))

    def arrays(self) -> dict[str, mx.array]:
        """Everything that the next step depends on, by name."""
        trees = {
            "weights": self.draft.trainable_parameters(),
            "average": self._average,
            "optimiser": self._optimiser.state,
        }
        return {f"{part}.{name}": array for part, tree in trees.items() for name, array in tree_flatten(tree)}

    def restore(self, step: int, arrays: dict[str, mx.array]) -> None:
        """Go on after `step` steps with what `arrays` gave."""
        parts: dict[str, list[tuple[str, mx.array]]] = {"weights": [], "average": [], "optimiser": []}
        for name, array in arrays.items():
            part, _, path = name.partition(".")
            parts[part].append((path, array))
        self.step = step
        self.draft.load_weights(parts["weights"], strict=True)
        self._average = tree_unflatten(parts["average"])
        self._optimiser.state = tree_unflatten(parts["optimiser"])

    def _loss(self, weights: Any, *batch: Any) -> tuple[mx.array, mx.array]:
        self.draft.update(weights)
        return loss_sum(self.draft, Batch(*batch))

    def _update(self, weights: Any, gradients: Any, weight: float) -> None:
        # The first steps count for little in the average of a draft that has only begun.
        decay = min(_AVERAGE_DECAY, (1 + self.step) / (10 + self.step))
        weights, self._average, self._optimiser.state = self._compiled_update(
            weights, self._average, self._optimiser.state, gradients, mx.array(weight), mx.array(decay)
        )
        self.draft.update(weights)  # tracing has left its own arrays in the draft
        mx.eval(weights, self._optimiser.state, self._average)

    def _updated(
        self, weights: Any, average: Any, state: Any, gradients: Any, weight: mx.array, decay: mx.array
    ) -> tuple[Any, Any, Any]:
        """Weights, average and optimiser's state after one update."""
        self._optimiser.state = state
        gradients = tree_map(lambda gradient: gradient / weight, gradients)
        clipped, _ = optimizers.clip_grad_norm(gradients, _GREATEST_NORM)
        weights = self._optimiser.apply_gradients(clipped, weights)
        average = tree_map(lambda mean, new: decay * mean + (1 - decay) * new, average, weights)
        return weights, average, self._optimiser.state


def _schedule(settings: Settings) -> Any:
    """The learning rate by step: up linearly, then down to nothing along a cosine."""
    warm_up = min(_WARM_UP_STEPS, max(1, settings.steps // 10))
    rising = optimizers.linear_schedule(0.0, settings.learning_rate, warm_up)
    falling = optimizers.cosine_decay(settings.learning_rate, max(1, settings.steps - warm_up))
    return optimizers.join_schedules([rising, falling], [warm_up])
