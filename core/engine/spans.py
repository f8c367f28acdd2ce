"""When devices were busy: spans of `time.perf_counter()` seconds."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[float, float]
"""Beginning and end."""


def total_s(spans: Iterable[Span]) -> float:
    """The sum of their lengths."""
    return sum(end - start for start, end in spans)


def covered_s(spans: Iterable[Span], start_s: float, end_s: float) -> float:
    """How much of start..end lies in at least one of them."""
    covered, reached = 0.0, start_s
    for start, end in sorted(spans):
        begin, stop = max(start, reached), min(end, end_s)
        if stop > begin:
            covered += stop - begin
            reached = stop
    return covered
