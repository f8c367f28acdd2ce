"""`BenchmarkDone` as a table for the terminal."""

from __future__ import annotations

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


def _row(timing: ModeTiming) -> str:
    least, greatest = timing.tokens_per_second_spread
    spread = f"({least:.1f} - {greatest:.1f})"
    return (
        f"{timing.mode:8}{timing.tokens_per_second:>8.1f}{spread:>22}{timing.accepted_per_step:>10.2f}"
        f"{timing.draft_ms:>10.1f}{timing.verify_ms:>11.1f}{timing.host_ms:>9.2f}"
    )
