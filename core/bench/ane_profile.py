"""A pair's modes at several depths of context: speed, acceptance, times of the draft and of verification, memory.

Greedy. Ends of sequence are ignored, so that all answers are equally long. The text before an answer is real: Python's
own documentation, which ships with every Python.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from pydoc_data.topics import topics
from statistics import fmean, median

from core.engine.answer import make_source
from core.engine.decode import DecodeStep, Limits, decode
from core.engine.device import on_cpu, peak_memory_bytes, reset_peak_memory
from core.engine.loader import LoadedPair
from core.engine.numerics import require_sound
from core.engine.programs import load_programs, making_s
from core.engine.prompt import render_prompt
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.step_figures import hit_rate, overlap, tokens_of, tokens_per_second
from core.errors import BadRequest
from core.kernel_messages import Precision
from core.protocol import ChatMessage, GenerateOptions, Mode

_WARM_UP_TOKENS = 8
_TASK = "\n\nSummarise the text above."


@dataclass(frozen=True)
class Preparation:
    """How long the draft's programs took to be ready."""

    precision: Precision
    first_s: float
    """To prepare them, when that was done; they may have been kept on the disk since."""
    kept_s: float
    """To find them there and to load them, now."""


@dataclass
class DepthMode:
    """One mode at one depth of context."""

    depth: int
    """Tokens before the answer."""
    mode: Mode
    tokens_per_second: list[float] = field(default_factory=list)
    """One entry a run."""
    steps: list[DecodeStep] = field(default_factory=list)
    """Of all runs, but for the first step of each, which ends the prompt."""
    texts: set[tuple[int, ...]] = field(default_factory=set)
    peak_rss_bytes: int = 0
    """The most memory that the process ever had when this depth was done."""
    peak_mlx_bytes: int | None = None
    """The most that MLX had at this depth; None where MLX works in the processor's memory."""

    def add(self, steps: Sequence[DecodeStep]) -> None:
        """Take a run."""
        self.tokens_per_second.append(tokens_per_second(steps))
        self.steps += steps[1:]
        self.texts.add(tokens_of(steps))

    @property
    def tokens_per_step(self) -> float:
        """Accepted proposals and the target's own token."""
        return fmean(len(step.tokens) for step in self.steps)

    @property
    def accepted_per_step(self) -> float:
        """Proposals."""
        return fmean(step.accepted for step in self.steps)

    @property
    def draft_ms(self) -> float:
        """The draft's work a step, also beside the verification."""
        return median(step.draft_ms for step in self.steps)

    @property
    def verify_ms(self) -> float:
        """A pass of the target."""
        return median(step.verify_ms for step in self.steps)

    @property
    def overlap(self) -> float | None:
        """The share of the draft's time that lay beside the target's; None without a draft."""
        return overlap(self.steps) if any(step.draft_busy for step in self.steps) else None

    @property
    def hit_rate(self) -> float | None:
        """Of steps whose outcome was guessed; None where none was."""
        return hit_rate(self.steps)


def prepare(loaded: LoadedPair, precision: Precision) -> Preparation:
    """Give the pair its draft's programs in this precision. Raises `BadRequest`, `ane.AneError`."""
    if loaded.pair.draft is None or loaded.drafter is None or loaded.programs is None:
        raise BadRequest(f"{loaded.pair.name} has no programs: {loaded.missing.get('ane', 'it has no draft')}")
    folder = Path(loaded.pair.draft)
    loaded.programs.close()
    target, selector = loaded.target, loaded.drafter.draft.selector
    load_programs(folder, target, precision=precision, selector=selector).close()  # prepares them, if need be
    first_s, began_s = making_s(folder, precision), time.perf_counter()
    loaded.programs = load_programs(folder, target, precision=precision, selector=selector)
    loaded.session = Session(loaded.target, loaded.drafter)  # what a session has of other programs is of no use
    kept_s = time.perf_counter() - began_s
    require_sound(loaded.programs.drafter, loaded.drafter, loaded.target)
    return Preparation(precision, first_s, kept_s)


def profile(
    loaded: LoadedPair,
    depths: Sequence[int],
    modes: Sequence[Mode],
    rows: int,
    runs: int,
    max_tokens: int,
    progress: Callable[[str], None] = lambda _what: None,
) -> Iterator[DepthMode]:
    """All modes at every depth, the least first; each result when its depth is done. Modes take turns in every run.

    Raises `BadRequest` before anything is measured where a depth and its answer do not fit.
    """
    prompts = {depth: prompt_of(loaded, depth, max_tokens) for depth in sorted(depths)}
    for depth, prompt in prompts.items():
        reset_peak_memory()
        results = {mode: DepthMode(depth, mode) for mode in modes}
        progress(f"reading {depth} tokens")
        loaded.session.read(prompt)
        for mode in modes:
            _decode(loaded, prompt, mode, rows, min(_WARM_UP_TOKENS, max_tokens))  # takes the context to its draft
        for run in range(runs):
            first = run % len(modes)
            for mode in [*modes[first:], *modes[:first]]:
                progress(f"depth {depth}, run {run + 1} of {runs}, mode {mode}")
                results[mode].add(_decode(loaded, prompt, mode, rows, max_tokens))
        for result in results.values():
            result.peak_rss_bytes = peak_rss_bytes()
            result.peak_mlx_bytes = None if on_cpu() else peak_memory_bytes()
            yield result


def _decode(loaded: LoadedPair, prompt: Sequence[int], mode: Mode, rows: int, max_tokens: int) -> list[DecodeStep]:
    """An answer behind what is committed of the prompt: all but its last token."""
    loaded.session.trim_to(len(prompt) - 1)
    sampler = Sampler(GenerateOptions(), loaded.target.vocab_size)
    limits = Limits(max_tokens, frozenset(), rows)
    return list(decode(loaded.session, prompt[-1], make_source(mode, loaded, sampler), sampler, limits))


def prompt_of(loaded: LoadedPair, depth: int, max_tokens: int) -> list[int]:
    """Exactly `depth` tokens: a message of real text, cut to fit, with a task behind it, in the pair's template.

    Raises `BadRequest` where the template alone is longer, where target or text are too short.
    """
    longest = loaded.target.context_length - max_tokens
    if depth > longest:
        raise BadRequest(
            f"A depth of {depth:,} tokens and an answer of {max_tokens:,} do not fit: "
            f"{loaded.pair.name} reads {loaded.target.context_length:,} tokens.",
            f"Ask for depths up to {longest:,}, or for a shorter answer.",
        )
    tokenizer = loaded.tokenizer
    one, other = (render_prompt(tokenizer, [ChatMessage("user", text + _TASK)]).ids for text in ("a", "Z"))
    head = [token for token, _ in takewhile(_equal, zip(one, other, strict=False))]
    tail = [token for token, _ in takewhile(_equal, zip(one[::-1], other[::-1], strict=False))][::-1]
    body = depth - len(head) - len(tail)
    if body < 1:
        raise BadRequest(
            f"A depth of {depth:,} tokens is too little: the chat template and the task take {len(head) + len(tail):,}."
        )
    text = tokenizer.encode("\n\n".join(topics[name] for name in sorted(topics)), parse_special=False)
    if body > len(text):
        raise BadRequest(f"There is real text for depths up to {len(text):,} tokens, not for {depth:,}.")
    return [*head, *text[:body], *tail]


def _equal(pair: tuple[int, int]) -> bool:
    return pair[0] == pair[1]


def peak_rss_bytes() -> int:
    """The most memory that this process ever had. It never falls."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
