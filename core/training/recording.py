"""What modules of a target give while it decodes a batch, and a file for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import mlx.core as mx
import numpy as np
from mlx import nn

from core.engine.target import Target


class Recorder:
    """Appends the features of the tokens that a target reads to a file: taps, then the row after the final norm."""

    def __init__(self, target: Target, file: BinaryIO) -> None:
        self.modules = [*(target.layers[tap] for tap in target.taps), target.final_norm]
        self._file = file
        self._rows = 0

    def append(self, outputs: Sequence[mx.array]) -> list[int]:
        """Write one array ([rows, hidden]) a module, and say which rows of the file they are."""
        together = mx.stack([output.astype(mx.float32) for output in outputs], axis=1)
        self._file.write(np.array(together).tobytes())
        first, self._rows = self._rows, self._rows + len(together)
        return list(range(first, self._rows))


@contextmanager
def outputs_of(modules: Sequence[nn.Module]) -> Iterator[list[mx.array]]:
    """Within it, the list holds what each module gave when it was last called."""
    outputs: list[Any] = [None] * len(modules)
    plain = [type(module) for module in modules]

    def recording(kind: type[nn.Module], index: int) -> type[nn.Module]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            output = kind.__call__(self, *args, **kwargs)
            outputs[index] = output[0] if isinstance(output, tuple) else output
            return output

        return type(kind.__name__, (kind,), {"__call__": call})

    try:
        for index, module in enumerate(modules):
            object.__setattr__(module, "__class__", recording(plain[index], index))
        yield outputs
    finally:
        for module, kind in zip(modules, plain, strict=True):
            object.__setattr__(module, "__class__", kind)
