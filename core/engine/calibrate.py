"""What a loaded pair costs on this machine: passes by their number of rows, and a block of each drafter."""

from __future__ import annotations

import time
from collections.abc import Callable

import mlx.core as mx
import numpy as np

from core.engine.controller import Costs
from core.engine.drafter import Drafter
from core.engine.session import Session
from core.engine.target import Target
from core.protocol import Mode

_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Passes that are timed; those between lie on lines."""
_REPEATS = 3
"""The least counts: other work only adds."""
_TOKEN = 7


def measure_costs(target: Target, drafters: dict[Mode, Drafter], most_rows: int) -> Costs:
    """Time passes of up to `most_rows` rows, and a whole block of each drafter with its LM head."""
    some = next(iter(drafters.values()), None)
    session = Session(target, some)
    for _ in session.prefill([_TOKEN] * 9, lambda: False):
        pass
    timed = sorted({min(rows, most_rows) for rows in _ROWS})
    verify_ms = [_least_ms(lambda rows=rows: _verify(session, rows)) for rows in timed]  # type: ignore[misc]
    by_rows = np.interp(range(1, most_rows + 1), timed, verify_ms)
    # Noise must not make a longer pass look cheaper than a shorter one.
    draft_ms = {mode: _least_ms(lambda drafter=drafter: _draft(session, drafter)) for mode, drafter in drafters.items()}  # type: ignore[misc]
    return Costs(tuple(np.maximum.accumulate(by_rows).tolist()), draft_ms)


def _verify(session: Session, rows: int) -> None:
    forward = session.forward(mx.array([_TOKEN] * rows, dtype=mx.uint32))
    mx.eval(mx.argmax(forward.logits, axis=-1), forward.taps)
    session.abort()


def _draft(session: Session, drafter: Drafter) -> None:
    assert session.context is not None
    logits = drafter.propose(mx.array([_TOKEN], dtype=mx.uint32), session.context, drafter.block_size - 1)
    mx.eval(mx.argmax(logits, axis=-1))


def _least_ms(work: Callable[[], None]) -> float:
    work()  # compiles kernels, brings contexts up to date
    times_s = []
    for _ in range(_REPEATS):
        began_s = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - began_s)
    return min(times_s) * 1e3
