"""How far a pair's loading is: one sequence of parts, weighed by what they took earlier on this machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from core.files import replace_file
from core.kernel_messages import KernelProgress
from core.paths import cache_dir
from core.protocol import Progress

log = logging.getLogger("mirror_sd.loading")

Part = Literal["target", "draft", "programs", "plain", "costs"]
_WORDS: dict[Part, str] = {
    "target": "reading the target",
    "draft": "reading the draft",
    "programs": "preparing the draft's programs",
    "plain": "measuring plain decoding",
    "costs": "measuring what steps cost",
}
_STAGES = {
    "hash": "reading its weights",
    "wait": "waiting for another program that prepares it",
    "quantise": "rounding weights",
    "build": "building",
    "write": "writing",
    "compile": "compiling",
    "seal": "keeping",
    "done": "ready",
}
_USUAL_S: dict[Part, float] = {"target": 2.0, "draft": 0.5, "programs": 2.0, "plain": 2.0, "costs": 4.0}
"""How parts are weighed before anything was loaded here; no time is promised by them."""
_MOST_PAIRS = 50


class Loading:
    """One loading under way. Parts come in the order given."""

    def __init__(self, parts: Sequence[Part], earlier_s: dict[str, float]) -> None:
        """`earlier_s` is what parts took the last time, by name; empty where that is not known."""
        self._parts = list(parts)
        self._earlier_s = earlier_s
        self._began_s = time.perf_counter()
        self._part_began_s = self._began_s
        self._now = -1
        """The part under way, by its place in the order; -1 before the first."""
        self._shown = 0.0
        self.taken_s: dict[str, float] = {}

    def begin(self, part: Part) -> Progress:
        """The part begins, and the one before is over."""
        self.end_part()
        self._now = self._parts.index(part)
        self._part_began_s = time.perf_counter()
        return self._progress(_WORDS[part], 0.0)

    def within(self, kernels: KernelProgress) -> Progress:
        """How far the programs are."""
        about = f" ({_STAGES[kernels.stage]}{f' {kernels.program}' if kernels.program else ''})"
        return self._progress(_WORDS["programs"] + about, kernels.done / kernels.total if kernels.total else 0.0)

    def end_part(self) -> None:
        """The part under way is over; called at the end as well."""
        if self._now >= 0:
            self.taken_s[self._parts[self._now]] = time.perf_counter() - self._part_began_s

    def _progress(self, words: str, share_of_part: float) -> Progress:
        elapsed_s = time.perf_counter() - self._began_s
        known = all(part in self._earlier_s for part in self._parts)
        weights_s = [self._earlier_s[part] if known else _USUAL_S[part] for part in self._parts]
        done_s = sum(weights_s[: self._now]) + share_of_part * weights_s[self._now]
        # Programs of several widths are prepared one after the other: the bar never goes back.
        self._shown = max(self._shown, done_s / sum(weights_s))
        left_s = max(0.0, sum(weights_s) - done_s) if known else None
        return Progress(words, self._now, len(self._parts), self._shown, elapsed_s, left_s)


def earlier_times(key: str) -> dict[str, float]:
    """What the parts of loading took the last time for `key`; empty where that is not known."""
    return _read().get(key, {})


def keep_times(key: str, taken_s: dict[str, float]) -> None:
    """Remember them for the next time."""
    known = _read()
    known.pop(key, None)
    kept = dict([*known.items(), (key, taken_s)][-_MOST_PAIRS:])
    try:
        replace_file(_file(), msgspec.json.encode(kept))
    except OSError as error:
        log.warning("How long loading took cannot be kept: %s", error)


def _file() -> Path:
    return cache_dir() / "loading_times.json"


def _read() -> dict[str, dict[str, float]]:
    try:
        return msgspec.json.decode(_file().read_bytes(), type=dict[str, dict[str, float]])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        log.warning("How long loading took before is not known: %s", error)
        return {}
