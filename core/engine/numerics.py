"""Whether a draft's programs compute what the draft does in MLX: measured once, when both are loaded.

A runtime may place operations on hardware that rounds otherwise, or get some wrong: better known than believed.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt

import ane
from core.engine.context import DraftContext
from core.engine.drafter_ane import AneDrafter
from core.engine.drafter_mlx import MlxDrafter
from core.engine.sampling import Sampler
from core.engine.target import Target
from core.protocol import GenerateOptions

MOST_ERROR = 0.1
"""Of a layer. Half precision gives some thousandths, weights of 8 bits some hundredths; more is another computation."""
_POSITIONS = 24
_STEP = 8


@dataclass(frozen=True)
class Numerics:
    """What was found on a few blocks over real features."""

    layer_errors: tuple[float, ...]
    """By layer: the largest relative error (Frobenius) of what it adds, or in the last of the rows behind its norm."""
    top1_agreement: float
    """The share of rows whose greedy choice is the same."""

    @property
    def sound(self) -> bool:
        """Whether the programs are this draft."""
        return all(error <= MOST_ERROR for error in self.layer_errors)  # no NaN is


def require_sound(programs: AneDrafter, in_mlx: MlxDrafter, target: Target) -> None:
    """Raises `ane.AneError` where the programs fail, or compute something else than the draft in MLX."""
    numerics = compare(programs, in_mlx, target)
    if not numerics.sound:
        errors = ", ".join(f"{error:.2g}" for error in numerics.layer_errors)
        raise ane.AneError(f"The draft's programs compute something else than the draft: errors by layer {errors}.")


def compare(programs: AneDrafter, in_mlx: MlxDrafter, target: Target) -> Numerics:
    """Run blocks behind a few positions in both. Raises `ane.AneError` where the programs fail."""
    tokens = (np.arange(_POSITIONS) * 7919 + 101) % target.vocab_size
    taps = target.forward(mx.array(tokens), target.make_cache()).taps
    layers = programs.config.num_hidden_layers
    contexts = DraftContext(layers), DraftContext(layers)
    anchor, greedy = mx.array([int(tokens[0])], dtype=mx.uint32), Sampler(GenerateOptions(), target.vocab_size)
    errors, agreed = np.zeros(layers), []
    for first in range(0, _POSITIONS, _STEP):
        for context in contexts:
            context.queue([tap[first : first + _STEP] for tap in taps])
        expected = in_mlx.propose(anchor, contexts[0], programs.block_size - 1)
        rows = programs.block(anchor, contexts[1])
        said = programs.say(rows, anchor)
        agreed.append(np.array(greedy.choose_in_turn(said, 0) == greedy.choose_in_turn(expected, 0)))
        errors = np.maximum(errors, _layer_errors(programs, in_mlx, contexts))
    return Numerics(tuple(errors.tolist()), float(np.concatenate(agreed).mean()))


def _layer_errors(
    programs: AneDrafter, in_mlx: MlxDrafter, contexts: tuple[DraftContext, DraftContext]
) -> npt.NDArray[np.float64]:
    """Of the block that ran last; every layer in MLX gets what entered the program's, so that each is judged alone."""
    draft, running = in_mlx.draft, programs.running(contexts[1])
    count = programs.block_size
    stream = [np.empty((count, programs.config.hidden_size), np.float32) for _ in range(len(draft.layers) + 1)]
    for layer, rows in enumerate(stream):
        running.rows(layer, rows)
    errors = []
    for layer, view in enumerate(draft.views(contexts[0].caches)):
        entered = mx.array(stream[layer]).astype(draft.dtype)
        left = draft.layers[layer](entered[None], draft.rope, view)[0]
        last = layer + 1 == len(draft.layers)
        expected = draft.norm(left) if last else left - entered
        got = stream[layer + 1] - (0 if last else stream[layer])
        errors.append(_relative_error(got, np.array(expected.astype(mx.float32))))
    return np.array(errors)


def _relative_error(got: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> float:
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))
