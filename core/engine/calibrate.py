"""Measures what a loaded pair costs on this machine: passes by rows and depth, blocks of each drafter."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_lm.models.cache import KVCache

import ane
from core.engine import BLAS
from core.engine.costs import Costs, costs_file, read_costs, write_costs
from core.engine.draft_thread import DRAFT_TIMEOUT_S
from core.engine.drafter import Drafter
from core.engine.programs import Programs
from core.engine.session import Session
from core.engine.target import Target
from core.machine import usable_cores
from core.pairs import Pair
from core.protocol import Mode

_ROWS = (1, 2, 3, 4, 6, 8, 12)
"""Passes that are timed, beside the widest; those between lie on lines."""
_REPEATS = 3
"""The least counts: other work only adds, and the first time compiles kernels."""
_TOKEN = 7
_DEPTH = 1024
"""Positions before the passes that are timed for what depth costs."""
_BESIDE_ROWS = 4
"""Of the pass that is timed beside a draft: about as many as are verified at once."""


def costs_of(pair: Pair, target: Target, drafters: dict[Mode, Drafter], programs: Programs | None) -> Costs:
    """What is known of the loaded pair from an earlier time, or is measured now. Raises as `measure_costs` does."""
    runtime = programs.runs_on if programs else "none"
    threads = f"{usable_cores()} cores, {os.environ.get('OPENBLAS_NUM_THREADS')}"
    if programs is not None and programs.threads:
        threads += f", {programs.threads} for the draft"
    about = [version("mlx"), ane.version(), runtime, str(mx.default_device()), repr(BLAS), threads]
    path = costs_file([Path(part) for part in (pair.target, pair.draft) if part], about)
    costs, most_rows = read_costs(path) if path else None, next(iter(drafters.values())).block_size
    if costs is None or costs.most_rows != most_rows or {*costs.draft_ms} != {*drafters}:
        costs = measure_costs(target, drafters, programs, most_rows)
        if path is not None:
            write_costs(path, costs)
    return costs


def measure_costs(target: Target, drafters: dict[Mode, Drafter], programs: Programs | None, most_rows: int) -> Costs:
    """Time passes of up to `most_rows` rows, a whole block of each drafter with its LM head, and a pass beside a draft.

    Raises `ane.AneError` and `DraftStopped` where the programs fail.
    """
    timed = [*(rows for rows in _ROWS if rows < most_rows), most_rows]
    verify_ms = _verify_ms(target, timed, _start(target))
    every = range(1, most_rows + 1)
    session = Session(target, next(iter(drafters.values())))
    session.read([_TOKEN] * 9)
    return Costs(
        # Noise must not make a longer pass look cheaper than a shorter one.
        verify_ms=tuple(np.maximum.accumulate(np.interp(every, timed, verify_ms)).tolist()),
        verify_ms_per_position=tuple(np.interp(every, [1, most_rows], _slopes(target, verify_ms, most_rows)).tolist()),
        draft_ms={str(mode): _least_ms(partial(_draft, session, drafter)) for mode, drafter in drafters.items()},
        head_ms=_head_ms(target, most_rows),
        beside=None if programs is None else _beside(session, programs, min(_BESIDE_ROWS, most_rows)),
    )


def _start(target: Target) -> list[Any]:
    """Caches with one position."""
    caches = target.make_cache()
    _pass(target, 1, caches)
    return caches


def _verify_ms(target: Target, timed: Sequence[int], caches: list[Any]) -> npt.NDArray[np.float64]:
    return np.array([_least_ms(partial(_pass, target, rows, caches)) for rows in timed])


def _pass(target: Target, rows: int, caches: list[Any]) -> None:
    """It stays in the caches: some cannot be trimmed, and a few positions more change nothing."""
    forward = target.forward(mx.array([_TOKEN] * rows, dtype=mx.uint32), caches)
    mx.eval(mx.argmax(forward.logits, axis=-1), forward.taps)


def _slopes(target: Target, verify_ms: npt.NDArray[np.float64], most_rows: int) -> npt.NDArray[np.float64]:
    """What a position adds to passes of one row and of the most, in milliseconds."""
    caches = _start(target)
    if not all(isinstance(cache, KVCache) for cache in caches):
        return np.zeros(2)  # caches of other kinds are bounded, or most of them are
    for cache in caches:
        batch, heads, _, head_dim = cache.keys.shape
        cache.update_and_fetch(*[mx.zeros((batch, heads, _DEPTH, head_dim), dtype=cache.keys.dtype)] * 2)
    deep_ms = _verify_ms(target, [1, most_rows], caches)
    return np.maximum(deep_ms - verify_ms[[0, -1]], 0.0) / _DEPTH


def _draft(session: Session, drafter: Drafter) -> None:
    assert session.context is not None
    logits = drafter.propose(mx.array([_TOKEN], dtype=mx.uint32), session.context, drafter.block_size - 1)
    mx.eval(mx.argmax(logits, axis=-1))


def _head_ms(target: Target, rows: int) -> float:
    hidden = mx.zeros((rows, target.hidden_size), dtype=target.dtype)
    return _least_ms(lambda: mx.eval(mx.argmax(target.lm_head(hidden), axis=-1)))


def _beside(session: Session, programs: Programs, rows: int) -> float:
    """How many times longer a pass takes while the programs fill all their columns."""
    assert session.context is not None
    running, width = programs.drafter.running(session.context), programs.drafter.width
    hidden = np.zeros((width, programs.drafter.config.hidden_size), dtype=np.float32)
    caches = _start(session.target)
    work = partial(_pass, session.target, rows, caches)

    def both() -> None:
        job = programs.thread.begin(lambda: running.run(np.ones_like(hidden), range(9, 9 + width), hidden))
        work()
        job.wait(DRAFT_TIMEOUT_S)

    alone_ms = _least_ms(work)
    programs.share_processor(True)
    beside_ms = _least_ms(both)
    programs.share_processor(False)
    return max(1.0, beside_ms / alone_ms)


def _least_ms(work: Callable[[], None]) -> float:
    times_s = []
    for _ in range(_REPEATS):
        began_s = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - began_s)
    return min(times_s) * 1e3
