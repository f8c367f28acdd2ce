"""How far a pair's preparation is: one sequence of parts, weighed by what they took earlier on this machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from core.files import replace_file
from core.kernel_messages import KernelProgress
from core.loading_words import PART_WORDS, STAGE_WORDS
from core.paths import cache_dir
from core.protocol import LoadPart, Progress

log = logging.getLogger("mirror_sd.loading")

_MADE = "made"
"""The name under which the time of programs is kept that were made, and not found."""
_USUAL_S = {
    "target": 2.0, "draft": 0.5, "programs": 2.0, "plain": 2.0, "costs": 4.0, "check": 15.0, _MADE: 60.0,
}  # fmt: skip
"""How parts are weighed before they were done here; no time is promised by them."""
_MAKING = ("quantise", "build", "write", "compile")
_MISS = "The draft's programs are made now: none are kept for these weights on this system."
_MOST_PAIRS = 50


class Loading:
    """One preparation under way. Parts come in the order given."""

    def __init__(self, parts: Sequence[LoadPart], key: str = "") -> None:
        """`key` says whose parts these are: what they took before under it is known. Empty keeps and knows nothing."""
        self._parts = list(parts)
        self._key = key
        self._earlier_s = earlier_times(key) if key else {}
        self._began_s = time.perf_counter()
        self._part_began_s = self._began_s
        self._now = -1
        """The part under way, by its place in the order; -1 before the first."""
        self._made = False
        self._words = ""
        self._share_of_part = 0.0
        self._shown = 0.0
        self.taken_s: dict[str, float] = {}

    def begin(self, part: LoadPart) -> Progress:
        """The part begins, and the one before is over."""
        self.end_part()
        self._now = self._parts.index(part)
        self._part_began_s = time.perf_counter()
        return self._progress(PART_WORDS[part], 0.0)

    def within(self, kernels: KernelProgress) -> Progress:
        """How far the programs are."""
        about = f" ({STAGE_WORDS[kernels.stage]}{f' {kernels.program}' if kernels.program else ''})"
        is_first = kernels.stage in _MAKING and not self._made
        self._made |= is_first
        share = kernels.done / kernels.total if kernels.total else 0.0
        return self._progress(PART_WORDS["programs"] + about, share, kernels, _MISS if is_first else "")

    def checked(self, done: int, total: int) -> Progress:
        """How far the check is, in answers."""
        return self._progress(f"{PART_WORDS['check']} ({done} of {total} answers)", done / total)

    def note(self, sentence: str) -> Progress:
        """What was found out, beside how far it is."""
        return self._progress(self._words, self._share_of_part, note=sentence)

    def end_part(self) -> None:
        """The part under way is over."""
        if self._now >= 0:
            self.taken_s[self._name(self._parts[self._now])] = time.perf_counter() - self._part_began_s

    def keep(self) -> None:
        """All is over: remember what the parts took."""
        self.end_part()
        if self._key:
            keep_times(self._key, {**self._earlier_s, **self.taken_s})

    def _name(self, part: LoadPart) -> str:
        return _MADE if part == "programs" and self._made else part

    def _progress(
        self, words: str, share_of_part: float, kernels: KernelProgress | None = None, note: str = ""
    ) -> Progress:
        self._words, self._share_of_part = words, share_of_part
        elapsed_s = time.perf_counter() - self._began_s
        weights_s = [self._earlier_s.get(self._name(part), _USUAL_S[self._name(part)]) for part in self._parts]
        done_s = sum(weights_s[: self._now]) + share_of_part * weights_s[self._now]
        self._shown = max(self._shown, done_s / sum(weights_s))  # the bar never goes back
        known = all(self._name(part) in self._earlier_s for part in self._parts[self._now :])
        left_s = max(0.0, sum(weights_s) - done_s) if known else None
        part, parts = self._parts[self._now], tuple(self._parts)
        return Progress(words, self._now, len(parts), self._shown, elapsed_s, left_s, part, parts, kernels, note)


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
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        log.warning("How long loading took before is not known: %s", error)
        return {}
