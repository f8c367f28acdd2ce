"""`BenchmarkDone` as a table for the terminal, and as the rows of a report."""

from __future__ import annotations

import msgspec

from core.bench.rows import Row, single
from core.protocol import BenchmarkDone, ModeTiming

_HEADER = (
    f"{'mode':8}{'tok/s':>8}{'(least - greatest)':>22}{'tok/step':>10}{'draft ms':>10}{'verify ms':>11}{'host ms':>9}"
)


def bench_table(result: BenchmarkDone) -> str:
    """Both modes side by side, then what follows from them."""
    lines = [_HEADER, _row(result.plain)]
    if result.gpu is None:
        return "\n".join([*lines, "", "This pair has no draft: there is nothing to compare with."])
    gained = "faster" if result.speed_up >= 1 else "slower"
    factor = result.speed_up if result.speed_up >= 1 else 1 / result.speed_up
    return "\n".join(
        [
            *lines,
            _row(result.gpu),
            "",
            f"gpu is {factor:.2f}x {gained} than plain decoding, at {result.width} rows a pass.",
            f"Break-even at this width: {result.break_even:.2f} tokens per step; "
            f"the draft gave {result.gpu.accepted_per_step:.2f}.",
            f"Same text in both modes: {result.same_text} of {result.prompts} prompts.",
        ]
    )


def bench_rows(result: BenchmarkDone) -> list[Row]:
    """The same figures, for a file."""
    rows = _mode_rows(result.plain)
    if result.gpu is not None:
        speed, *others = _mode_rows(result.gpu)
        rows += [msgspec.structs.replace(speed, ratio_to="plain: speed", ratio=result.speed_up), *others]
        rows.append(single("break-even", result.break_even, "tokens per step"))
    return rows


def _mode_rows(timing: ModeTiming) -> list[Row]:
    speed = Row(f"{timing.mode}: speed", timing.tokens_per_second, "tok/s", timing.tokens_per_second_spread)
    return [
        speed,
        single(f"{timing.mode}: tokens per step", timing.accepted_per_step, "tokens"),
        single(f"{timing.mode}: step", timing.step_ms, "ms"),
        single(f"{timing.mode}: draft", timing.draft_ms, "ms"),
        single(f"{timing.mode}: verify", timing.verify_ms, "ms"),
        single(f"{timing.mode}: no device at work", timing.host_ms, "ms"),
    ]


def _row(timing: ModeTiming) -> str:
    least, greatest = timing.tokens_per_second_spread
    spread = f"({least:.1f} - {greatest:.1f})"
    return (
        f"{timing.mode:8}{timing.tokens_per_second:>8.1f}{spread:>22}{timing.accepted_per_step:>10.2f}"
        f"{timing.draft_ms:>10.1f}{timing.verify_ms:>11.1f}{timing.host_ms:>9.2f}"
    )
