"""`BenchmarkDone` as a table for the terminal, and as the rows of a report."""

from __future__ import annotations

from core.bench.rows import Row, single
from core.protocol import BenchmarkDone, ModeTiming

_HEADER = (
    f"{'mode':8}{'tok/s':>8}{'(least - greatest)':>22}{'vs plain':>10}{'tok/step':>10}{'draft ms':>10}{'verify ms':>11}"
    f"{'host ms':>9}{'hits':>7}{'overlap':>9}{'break-even':>12}"
)


def bench_table(result: BenchmarkDone) -> str:
    """All modes, one a line, then whether they agreed."""
    lines = [_HEADER, *map(_row, result.modes), ""]
    if len(result.modes) == 1:
        return "\n".join([*lines, "This pair has no draft: there is nothing to compare with."])
    same = min(timing.same_text for timing in result.modes)
    return "\n".join(
        [
            *lines,
            f"{result.width} rows a pass. Break-even: tokens per step at which the mode would equal plain.",
            f"Same text in all modes: {same} of {result.prompts} prompts.",
        ]
    )


def bench_rows(result: BenchmarkDone) -> list[Row]:
    """The same figures, for a file."""
    return [row for timing in result.modes for row in _mode_rows(timing)]


def _mode_rows(timing: ModeTiming) -> list[Row]:
    mode, speed, spread = timing.mode, timing.tokens_per_second, timing.tokens_per_second_spread
    ratio_to, ratio = ("", 0.0) if mode == "plain" else ("plain: speed", timing.speed_up)
    rows = [
        Row(f"{mode}: speed", speed, "tok/s", spread, ratio_to, ratio),
        single(f"{mode}: tokens per step", timing.accepted_per_step, "tokens"),
        single(f"{mode}: step", timing.step_ms, "ms"),
        single(f"{mode}: draft", timing.draft_ms, "ms"),
        single(f"{mode}: verify", timing.verify_ms, "ms"),
        single(f"{mode}: no device at work", timing.host_ms, "ms"),
    ]
    if mode != "plain":
        rows.append(single(f"{mode}: break-even", timing.break_even, "tokens per step"))
    if timing.hit_rate is not None:
        rows += [
            single(f"{mode}: hits", timing.hit_rate, "of guessed steps"),
            single(f"{mode}: overlap", timing.overlap, "of the draft's time"),
        ]
    return rows


def _row(timing: ModeTiming) -> str:
    least, greatest = timing.tokens_per_second_spread
    spread = f"({least:.1f} - {greatest:.1f})"
    hits = "" if timing.hit_rate is None else f"{timing.hit_rate:.0%}"
    return (
        f"{timing.mode:8}{timing.tokens_per_second:>8.1f}{spread:>22}{timing.speed_up:>9.2f}x"
        f"{timing.accepted_per_step:>10.2f}{timing.draft_ms:>10.1f}{timing.verify_ms:>11.1f}{timing.host_ms:>9.2f}"
        f"{hits:>7}{timing.overlap:>9.2f}{timing.break_even:>12.2f}"
    )
