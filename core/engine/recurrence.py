"""Running recurrent layers once more over the rows of a pass that were accepted.

A recurrent layer (GatedDeltaNet, Mamba, short convolutions, ...) overwrites its state. While a pass runs, the modules
that advance a state are watched: what they were called with, and what their linear layers gave. To keep the first k
rows, the state before the pass is put back and each of these modules is called again with k rows. Its linear layers
then answer from memory, and as MLX is lazy, nothing is computed but the new state: the convolution's rows and the
recurrence itself.
"""

from __future__ import annotations

import inspect
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import ArraysCache

from core.engine.hooks import exchange_class, hooked_class
from core.errors import UnsupportedCache


@dataclass
class Recording:
    """The calls of one pass that advanced a recurrent state."""

    rows: int
    calls: list[_Call] = field(default_factory=list)
    outputs: dict[int, deque[mx.array]] = field(default_factory=lambda: defaultdict(deque))
    """By the linear layer's id, in the order of its calls: [1, rows, channels]."""


@dataclass(frozen=True)
class _Call:
    """A module, what it was called with, and the recurrent cache among it."""

    module: nn.Module
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    cache: ArraysCache


class Recorder:
    """Watches the modules of a model that advance any of `caches`, during `record` and `replay` only."""

    def __init__(self, layers: Sequence[nn.Module], caches: Sequence[ArraysCache]) -> None:
        self._caches = {id(cache) for cache in caches}
        self._now: Recording | None = None
        self._remembers = False
        """Whether a watched module runs whose linear layers' outputs are recorded or replayed."""
        self._replays = False
        self._hooks: list[tuple[nn.Module, type[nn.Module], type[nn.Module]]] = []
        for layer in layers:
            for module in _mixers(layer):
                self._add(module, self._call_mixer)
                for linear in module.modules():
                    if isinstance(linear, (nn.Linear, nn.QuantizedLinear)):
                        self._add(linear, self._call_linear)

    @contextmanager
    def record(self, rows: int) -> Iterator[Recording]:
        """Record the pass of `rows` rows that runs inside.

        Raises `UnsupportedCache` where something else than a module of the layers has advanced one of the caches.
        """
        recording = Recording(rows)
        with self._hooked(recording, replays=False):
            yield recording
        if {id(call.cache) for call in recording.calls} != self._caches:
            raise UnsupportedCache(
                "This target keeps a recurrent state in a way that Mirror SD cannot roll back.",
                "Choose another target, or use it without a draft.",
                "an ArraysCache is not advanced by a module of a decoder layer",
            )

    def replay(self, recording: Recording, rows: int) -> None:
        """Advance the caches, which are as before the recorded pass, by its first `rows` rows; lazily, and once."""
        with self._hooked(recording, replays=True):
            for call in recording.calls:
                arguments = [_first_rows(value, recording.rows, rows) for value in call.arguments]
                named = {name: _first_rows(value, recording.rows, rows) for name, value in call.named.items()}
                call.module(*arguments, **named)

    @contextmanager
    def _hooked(self, recording: Recording, replays: bool) -> Iterator[None]:
        self._now, self._replays = recording, replays
        try:
            for module, _, watched in self._hooks:
                exchange_class(module, watched)
            yield
        finally:
            for module, plain, _ in self._hooks:
                exchange_class(module, plain)
            self._now = None

    def _add(self, module: nn.Module, call: Callable[..., Any]) -> None:
        plain = type(module)
        watched = hooked_class(plain, lambda *arguments, **named: call(plain, *arguments, **named))
        self._hooks.append((module, plain, watched))

    def _call_mixer(self, plain: type[nn.Module], module: nn.Module, *arguments: Any, **named: Any) -> Any:
        recording = self._now
        assert recording is not None
        given = [value for value in (*arguments, *named.values()) if id(value) in self._caches]
        if not given:
            return plain.__call__(module, *arguments, **named)
        known = len(recording.calls)
        outer, self._remembers = self._remembers, True
        try:
            output = plain.__call__(module, *arguments, **named)
        finally:
            self._remembers = outer
        # A module inside that was handed the same cache has been recorded already.
        if not self._replays and all(call.cache is not given[0] for call in recording.calls[known:]):
            recording.calls.append(_Call(module, arguments, named, given[0]))
        return output

    def _call_linear(self, plain: type[nn.Module], module: nn.Module, rows: mx.array) -> mx.array:
        recording = self._now
        assert recording is not None
        if not self._remembers or rows.ndim != 3:
            output: mx.array = plain.__call__(module, rows)
            return output
        known = recording.outputs[id(module)]
        if self._replays and known:
            return known.popleft()[:, : rows.shape[1]]
        output = plain.__call__(module, rows)
        if not self._replays:
            known.append(output)
        return output


def _mixers(layer: nn.Module) -> list[nn.Module]:
    """The modules inside a decoder layer that are called with a cache."""
    inside = [module for module in layer.modules() if module is not layer]
    return [module for module in inside if "cache" in inspect.signature(type(module).__call__).parameters]


def _first_rows(value: Any, recorded: int, rows: int) -> Any:
    """[1, recorded, ...] arrays to [1, rows, ...]; anything else as it is."""
    if isinstance(value, mx.array) and value.ndim > 1 and value.shape[1] == recorded:
        return value[:, :rows]
    return value
