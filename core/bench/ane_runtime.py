"""How fast a draft's programs run on the processor: against the same draft in MLX, and against what the machine can do.

All in one process with one number of threads, in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from core.bench.rows import Row, row
from core.engine.draft_passes import (
    Pass,
    layer_weights,
    load_programs,
    mlx_pass,
    program_pass,
    read_draft,
)
from core.engine.drafter_mlx import DFlashDraft
from core.kernel_messages import PRECISIONS, Precision

BYTES_A_WEIGHT = {"w8a16": 1, "fp16": 2}
COLUMNS = (16, 32, 64)
CONTEXTS = (64, 1024, 2048)
_PASSES = 5
"""In a run; the least counts, since other work only adds."""
_SQUARE = 1024


@dataclass
class Bounds:
    """What the machine does at most, measured in each run."""

    multiply_adds_per_ms: list[float] = field(default_factory=list)
    """Of a float32 product of two matrices of 1024 x 1024."""
    bytes_per_ms: list[float] = field(default_factory=list)
    """Of reading as many bytes as the weights have, again and again."""

    def measure(self, weights: int) -> None:
        """One run, for a draft of so many weights."""
        a, b = (np.random.default_rng(i).standard_normal((_SQUARE, _SQUARE)).astype(np.float32) for i in range(2))
        out = np.empty_like(a)
        self.multiply_adds_per_ms.append(_SQUARE**3 / least_ms(lambda: np.matmul(a, b, out=out)))
        flat = np.ones(weights // 4, np.float32)
        self.bytes_per_ms.append(flat.nbytes / least_ms(lambda: np.dot(flat, flat)))


def least_ms(work: Callable[[], object]) -> float:
    """The least of a few runs of `work`, in milliseconds."""
    times_s = []
    for _ in range(_PASSES):
        began_s = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - began_s)
    return min(times_s) * 1e3


@dataclass(frozen=True)
class Case:
    """A pass that is measured."""

    precision: Precision
    columns: int
    context: int

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.precision}, {self.columns} columns, context {self.context}"


def runtime_rows(
    folder: Path,
    threads: int,
    runs: int,
    columns: Sequence[int] = COLUMNS,
    contexts: Sequence[int] = CONTEXTS,
    progress: Callable[[str], None] = lambda _name: None,
) -> list[Row]:
    """Milliseconds of every case with the speed against MLX, and the share of the two bounds that each reaches.

    `threads` are those of the programs; MLX has what the environment gave it.
    """
    draft = read_draft(folder)
    weights = layer_weights(draft)
    bounds = Bounds()
    times_ms: dict[Case, list[tuple[float, float]]] = {}
    programs = {
        (precision, width): load_programs(folder, threads, precision, width, max(contexts))
        for precision in PRECISIONS
        for width in columns
    }
    for _ in range(runs):
        bounds.measure(weights)
        for width in columns:
            for context in contexts:
                in_mlx = mlx_pass(draft, width, context)
                for precision in PRECISIONS:
                    case = Case(precision, width, context)
                    progress(case.name)
                    ours = program_pass(folder, programs[precision, width], draft.config, width, context)
                    times_ms.setdefault(case, []).append(_pair_ms(ours, in_mlx))
    return [each for case, runs_ms in times_ms.items() for each in _case_rows(case, runs_ms, draft, weights, bounds)]


def _pair_ms(ours: Pass, theirs: Pass) -> tuple[float, float]:
    """Both once to warm up, then in turns."""
    ours()
    theirs()
    return least_ms(ours), least_ms(theirs)


def _case_rows(
    case: Case, runs_ms: Sequence[tuple[float, float]], draft: DFlashDraft, weights: int, bounds: Bounds
) -> list[Row]:
    ours_ms = [ours for ours, _ in runs_ms]
    speed = median(theirs / ours for ours, theirs in runs_ms)
    config = draft.config
    attended = 2 * config.num_attention_heads * config.head_dim * (case.context + case.columns)
    work = case.columns * (weights + config.num_hidden_layers * attended)
    kept = 2 * 2 * config.num_key_value_heads * config.head_dim * case.context * config.num_hidden_layers
    read_bytes = weights * BYTES_A_WEIGHT[case.precision] + kept
    rate, bandwidth = bounds.multiply_adds_per_ms, bounds.bytes_per_ms
    return [
        Row(case.name, median(ours_ms), "ms", (min(ours_ms), max(ours_ms)), "MLX float32, times as fast", speed),
        row(
            f"{case.name}: share of the arithmetic bound",
            "",
            [work / r / ms for r, ms in zip(rate, ours_ms, strict=True)],
        ),
        row(
            f"{case.name}: share of the memory bound",
            "",
            [read_bytes / b / ms for b, ms in zip(bandwidth, ours_ms, strict=True)],
        ),
    ]
