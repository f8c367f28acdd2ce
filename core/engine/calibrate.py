"""Measures what a loaded pair costs on this machine: passes by rows and depth, blocks of each drafter."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

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
from core.engine.rollback import Transaction
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.source_lookup import LOOKUP_ROWS
from core.engine.target import Target
from core.machine import usable_cores
from core.pairs import Pair
from core.protocol import GenerateOptions, Mode

log = logging.getLogger("mirror_sd.calibrate")

_MEASURE = "passes with their commit"
"""What is measured, for the name of the file: costs that were measured otherwise are not read."""
_ROWS = (1, 2, 3, 4, 6, 8, 12)
"""Passes that are timed, beside the widest; those between lie on lines."""
_REPEATS = 3
"""The least counts: other work only adds, and the first time compiles kernels."""
_TOKEN = 7
_DEPTH = 1024
"""Positions before the passes that are timed for what depth costs."""
_BUSY = 1.15
"""Where a pass took so many times what it takes now, the machine had other work when the costs were measured."""
_BESIDE_ROWS = 4
"""Of the pass that is timed beside a draft: about as many as are verified at once."""


GoOn = Callable[[], None]
"""Raises where the measuring is to stop."""


def costs_of(
    pair: Pair,
    target: Target,
    drafters: dict[Mode, Drafter],
    programs: Programs | None,
    go_on: GoOn = lambda: None,
) -> Costs:
    """What is known of the loaded pair from an earlier time, or is measured now: also where the machine was clearly
    busier then. Raises as `measure_costs` does.
    """
    runtime = programs.runs_on if programs else "none"
    threads = f"{usable_cores()} cores, {os.environ.get('OPENBLAS_NUM_THREADS')}"
    if programs is not None and programs.threads:
        threads += f", {programs.threads} for the draft"
    about = [_MEASURE, version("mlx"), ane.version(), runtime, str(mx.default_device()), repr(BLAS), threads]
    path = costs_file([Path(part) for part in (pair.target, pair.draft) if part], about)
    most_rows = next((drafter.block_size for drafter in drafters.values()), LOOKUP_ROWS)
    kept = read_costs(path) if path else None
    if kept is not None and (kept.most_rows != most_rows or {*kept.draft_ms} != {*drafters}):
        kept = None
    if kept is not None and not _was_busy(kept, target):
        return kept
    costs = measure_costs(target, drafters, programs, most_rows, go_on)
    if path is not None:
        write_costs(path, costs)
    return costs


def _was_busy(kept: Costs, target: Target) -> bool:
    """Whether `kept` costs were measured while the machine had more other work than it has now."""
    now_ms = _least_ms(partial(_pass, target, 1, _start(target)))
    if kept.verify_ms[0] < _BUSY * now_ms:
        return False
    log.info("A pass takes %.1f ms, where the kept costs say %.1f: they are measured anew.", now_ms, kept.verify_ms[0])
    return True


def measure_costs(
    target: Target,
    drafters: dict[Mode, Drafter],
    programs: Programs | None,
    most_rows: int,
    go_on: GoOn = lambda: None,
) -> Costs:
    """Time passes of up to `most_rows` rows, a whole block of each drafter with its LM head, and a pass beside a draft.

    A pass is timed with what it takes to forget half of its rows: recurrent states are advanced once more.
    Raises `ane.AneError` and `DraftStopped` where the programs fail, `UnsupportedCache` where rows cannot be forgotten,
    and what `go_on` raises before a measurement.
    """
    timed = [*(rows for rows in _ROWS if rows < most_rows), most_rows]
    verify_ms = _verify_ms(target, timed, _start(target), go_on)
    every = range(1, most_rows + 1)
    slopes = _slopes(target, verify_ms, most_rows, go_on)
    session = Session(target, next(iter(drafters.values()), None))
    session.read([_TOKEN] * 9)
    return Costs(
        # Noise must not make a longer pass look cheaper than a shorter one.
        verify_ms=tuple(np.maximum.accumulate(np.interp(every, timed, verify_ms)).tolist()),
        verify_ms_per_position=tuple(np.interp(every, [1, most_rows], slopes).tolist()),
        draft_ms={str(mode): _least_ms(partial(_draft, session, drafter)) for mode, drafter in drafters.items()},
        head_ms=_head_ms(target, most_rows),
        beside_ms=() if programs is None else _beside_ms(session, programs, min(_BESIDE_ROWS, most_rows)),
    )


def _start(target: Target) -> Transaction:
    """Caches with one position."""
    transaction = Transaction(target.make_cache(), target.layers)
    _pass(target, 1, transaction)
    return transaction


def _verify_ms(target: Target, timed: Sequence[int], transaction: Transaction, go_on: GoOn) -> npt.NDArray[np.float64]:
    times_ms = []
    for rows in timed:
        go_on()
        times_ms.append(_least_ms(partial(_pass, target, rows, transaction)))
    return np.array(times_ms)


def _pass(target: Target, rows: int, transaction: Transaction) -> None:
    """Half of it stays in the caches: a few positions more change nothing."""
    with transaction.begin(rows):
        forward = target.forward(mx.array([_TOKEN] * rows, dtype=mx.uint32), transaction.caches)
    mx.eval(mx.argmax(forward.logits, axis=-1), forward.taps)
    transaction.commit(-(-rows // 2))
    # In an answer this waits for the next pass, which is not timed here.
    mx.eval([cache.state for cache in transaction.caches])


def _slopes(target: Target, verify_ms: npt.NDArray[np.float64], most_rows: int, go_on: GoOn) -> npt.NDArray[np.float64]:
    """What a position adds to passes of one row and of the most, in milliseconds."""
    transaction = _start(target)
    if not all(isinstance(cache, KVCache) for cache in transaction.caches):
        return np.zeros(2)  # caches of other kinds are bounded, or most of them are
    for cache in transaction.caches:
        batch, heads, _, head_dim = cache.keys.shape
        cache.update_and_fetch(*[mx.zeros((batch, heads, _DEPTH, head_dim), dtype=cache.keys.dtype)] * 2)
    transaction.length += _DEPTH
    deep_ms = _verify_ms(target, [1, most_rows], transaction, go_on)
    return np.maximum(deep_ms - verify_ms[[0, -1]], 0.0) / _DEPTH


def _draft(session: Session, drafter: Drafter) -> None:
    assert session.context is not None
    said = drafter.propose(mx.array([_TOKEN], dtype=mx.uint32), session.context, drafter.block_size - 1)
    mx.eval(Sampler(GenerateOptions(), session.target.vocab_size).choose_in_turn(said, session.context.length + 1))


def _head_ms(target: Target, rows: int) -> float:
    hidden = mx.zeros((rows, target.hidden_size), dtype=target.dtype)
    return _least_ms(lambda: mx.eval(mx.argmax(target.lm_head(hidden), axis=-1)))


def _beside_ms(session: Session, programs: Programs, rows: int) -> tuple[tuple[int, float], ...]:
    """What a pass takes longer beside the programs, by columns of each of their widths."""
    assert session.context is not None
    running, hidden_size = programs.drafter.running(session.context), programs.drafter.config.hidden_size
    work = partial(_pass, session.target, rows, _start(session.target))

    def both(columns: int) -> None:
        embedded = np.ones((columns, hidden_size), dtype=np.float32)
        job = programs.thread.begin(lambda: running.run(embedded, range(9, 9 + columns), np.empty_like(embedded)))
        work()
        job.wait(DRAFT_TIMEOUT_S)

    alone_ms = _least_ms(work)
    programs.share_processor(True)
    beside_ms = [(columns, _least_ms(partial(both, columns))) for columns in programs.drafter.widths]
    programs.share_processor(False)
    return tuple((columns, max(0.0, both_ms - alone_ms)) for columns, both_ms in beside_ms)


def _least_ms(work: Callable[[], None]) -> float:
    times_s = []
    for _ in range(_REPEATS):
        began_s = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - began_s)
    return min(times_s) * 1e3
