"""Times every mode on the same prompts in turns, for `mirror-sd bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from core.engine.answer import OnChange, check_options, ignore_change, make_source
from core.engine.decode import DecodeStep, Limits, decode
from core.engine.loader import LoadedPair
from core.engine.prompt import render_prompt
from core.engine.sampling import Sampler
from core.engine.step_figures import hit_rate, overlap, tokens_of, tokens_per_second, tokens_per_step
from core.errors import BadRequest, Cancelled
from core.protocol import Benchmark, BenchmarkDone, ChatMessage, GenerateOptions, Mode, ModeTiming, Progress


@dataclass
class _Runs:
    """What was measured of one mode."""

    tokens_per_second: list[float] = field(default_factory=list)
    tokens_per_step: list[float] = field(default_factory=list)
    draft_ms: list[float] = field(default_factory=list)
    verify_ms: list[float] = field(default_factory=list)
    host_ms: list[float] = field(default_factory=list)
    step_ms: list[float] = field(default_factory=list)
    texts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    steps: list[DecodeStep] = field(default_factory=list)

    def add_run(self, prompt: str, steps: list[DecodeStep]) -> None:
        """Take one answer. The first step is the prompt's last row: it is not decoding."""
        rest = steps[1:]
        seconds = steps[-1].done_s - steps[0].done_s
        self.texts[prompt] = tokens_of(steps)
        if not rest:
            return
        self.tokens_per_second.append(tokens_per_second(steps))
        self.tokens_per_step.append(tokens_per_step(steps))
        self.step_ms.append(seconds * 1e3 / len(rest))
        self.draft_ms += [step.draft_ms for step in rest]
        self.verify_ms += [step.verify_ms for step in rest]
        self.host_ms += [step.host_ms for step in rest]
        self.steps += steps

    def timing(self, mode: Mode, plain: _Runs) -> ModeTiming:
        """Medians and spread, against plain. Raises `BadRequest` where every answer ended at once."""
        if not self.tokens_per_second or not plain.tokens_per_second:
            raise BadRequest("The answers were too short to be timed.", "Give other prompts.")
        return ModeTiming(
            mode=mode,
            tokens_per_second=median(self.tokens_per_second),
            tokens_per_second_spread=(min(self.tokens_per_second), max(self.tokens_per_second)),
            accepted_per_step=median(self.tokens_per_step),
            draft_ms=median(self.draft_ms),
            verify_ms=median(self.verify_ms),
            host_ms=median(self.host_ms),
            step_ms=median(self.step_ms),
            speed_up=median(self.tokens_per_second) / median(plain.tokens_per_second),
            break_even=median(self.step_ms) / median(plain.step_ms),
            same_text=sum(self.texts[prompt] == text for prompt, text in plain.texts.items()),
            hit_rate=hit_rate(self.steps),
            overlap=overlap(self.steps),
        )


def measure_modes(
    loaded: LoadedPair, request: Benchmark, cancelled: Callable[[], bool]
) -> Iterator[Progress | BenchmarkDone]:
    """Decode every prompt greedily in every mode, `runs` times, the modes in turns so that noise meets both.

    Raises `BadRequest` for impossible options, and `Cancelled`.
    """
    if request.runs < 1 or not request.prompts:
        raise BadRequest("A benchmark needs at least one run of one prompt.")
    widths = {
        mode: check_options(GenerateOptions(mode, request.width, request.max_tokens), loaded) for mode in loaded.modes
    }
    runs = {mode: _Runs() for mode in loaded.modes}
    work = [(prompt, mode) for _ in range(request.runs) for prompt in request.prompts for mode in loaded.modes]
    for done, (prompt, mode) in enumerate(work):
        yield Progress(f"decoding in mode {mode}", done, len(work))
        runs[mode].add_run(prompt, _answer(loaded, prompt, mode, widths[mode], request.max_tokens, cancelled))
    timings = tuple(measured.timing(mode, runs["plain"]) for mode, measured in runs.items())
    yield BenchmarkDone(timings, max(widths.values()), len(request.prompts))


def _answer(
    loaded: LoadedPair, prompt: str, mode: Mode, width: int, max_tokens: int, cancelled: Callable[[], bool]
) -> list[DecodeStep]:
    ids = render_prompt(loaded.tokenizer, [ChatMessage("user", prompt)]).ids
    return decode_anew(loaded, ids, mode, Limits(max_tokens, loaded.tokenizer.eos_ids, width), cancelled=cancelled)


_GREEDY = GenerateOptions()


def decode_anew(
    loaded: LoadedPair,
    prompt: Sequence[int],
    mode: Mode,
    limits: Limits,
    options: GenerateOptions = _GREEDY,
    cancelled: Callable[[], bool] = lambda: False,
    changed: OnChange = ignore_change,
    draft_options: GenerateOptions | None = None,
) -> list[DecodeStep]:
    """All steps of an answer that reads its whole prompt: nothing of earlier ones is reused, in any mode.

    `options` are those of sampling; `changed` is told of changes of mode. With `draft_options` the draft chooses by
    these, and does not share the target's noise. Raises `Cancelled`.
    """
    sampler = Sampler(options, loaded.target.vocab_size)
    drafts = sampler if draft_options is None else Sampler(draft_options, loaded.target.vocab_size)
    loaded.session.read(prompt, cancelled)
    source = make_source(mode, loaded, drafts, changed)
    steps = list(decode(loaded.session, prompt[-1], source, sampler, limits, cancelled))
    if steps[-1].finish == "cancelled":
        raise Cancelled("Stopped while decoding.")
    return steps
