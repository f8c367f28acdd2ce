"""When devices were busy: spans of `time.perf_counter()` seconds."""

from __future__ import annotations

import math
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


def beside_s(spans: Iterable[Span]) -> float:
    """How long more than one of them was under way, counted once for each beyond the first."""
    known = list(spans)
    return total_s(known) - covered_s(known, -math.inf, math.inf)
