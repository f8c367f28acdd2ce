"""Answers a conversation: renders the prompt, decodes, and turns steps into events with text and figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from core.engine.decode import DecodeStep, Limits, decode
from core.engine.fallback import FallbackSource
from core.engine.loader import LoadedPair
from core.engine.prompt import render_prompt, shared_beginning
from core.engine.sampling import Sampler
from core.engine.source_auto import AutoSource
from core.engine.source_lookup import LookupSource
from core.engine.sources import PlainSource, SerialSource, Source
from core.engine.sources_ane import AneSource, MirrorSource
from core.engine.spans import Span
from core.engine.text import Detokenizer, StopStrings
from core.engine.thinking import Split, ThinkingSplitter
from core.errors import BadRequest, Cancelled
from core.protocol import (
    BusySpan,
    ChangeCause,
    Done,
    FinishReason,
    Generate,
    GenerateOptions,
    Mode,
    ModeChanged,
    Prefill,
    Step,
    StepToken,
)


class Answer:
    """One answer under way. Iterate over `events()` once; the last event is `Done`."""

    def __init__(self, loaded: LoadedPair, request: Generate, cancelled: Callable[[], bool]) -> None:
        """Raises `BadRequest` for options out of range."""
        self._loaded = loaded
        self._request = request
        self._cancelled = cancelled
        self._width = check_options(request.options, loaded)
        self._sampler = Sampler(request.options, loaded.target.vocab_size)
        self._detokenizer = Detokenizer(loaded.tokenizer)
        self._stops = StopStrings(request.options.stop)
        self._began_s = time.perf_counter()
        self._first_token_s = self._last_token_s = 0.0
        self._text = self._thinking = ""
        self._token_ids: list[int] = []
        self._steps = self._proposed = self._accepted = 0
        self._changes: list[ModeChanged] = []
        self._reused = 0
        self._splitter = ThinkingSplitter(opened=False)

    def events(self) -> Iterator[Prefill | Step | ModeChanged | Done]:
        """`Prefill`..., `Step` and `ModeChanged`..., `Done`.

        Raises `PromptTooLong` and the errors of the chat template.
        """
        tokenizer, messages, session = self._loaded.tokenizer, self._request.messages, self._loaded.session
        thinking = self._request.options.thinking
        rendered = render_prompt(tokenizer, messages, thinking)
        prompt = rendered.ids
        shared = shared_beginning(tokenizer, messages, prompt, thinking) if session.holds_ends else 0
        self._splitter = ThinkingSplitter(rendered.opens_thinking)
        finish: FinishReason = "cancelled"
        try:
            for done, reused in session.prefill(prompt, self._cancelled, shared):
                self._reused = reused
                yield Prefill(done, len(prompt), reused)
        except Cancelled:
            yield self._done(len(prompt), finish)
            return
        options = self._request.options
        source = make_source(options.mode, self._loaded, self._sampler, self._change)
        limits = Limits(options.max_tokens, self._loaded.tokenizer.eos_ids, self._width)
        steps = decode(session, prompt[-1], source, self._sampler, limits, self._cancelled)
        try:
            for step in steps:
                event, ended = self._step(step)
                yield event
                yield from self._changes
                self._changes.clear()
                if ended is not None:
                    finish = ended
                    break
        finally:
            steps.close()
        yield self._done(len(prompt), finish)

    def _change(self, mode: Mode, reason: str, cause: ChangeCause) -> None:
        self._changes.append(ModeChanged(mode, reason, cause))

    def _step(self, step: DecodeStep) -> tuple[Step, FinishReason | None]:
        """The event for a decode step, and why the answer ends with it, if it does."""
        self._last_token_s = step.done_s
        if not self._token_ids:
            self._first_token_s = self._last_token_s
        else:
            self._steps += 1
            self._proposed += len(step.proposals)
            self._accepted += step.accepted
        if len(step.proposals) == 0:
            self._loaded.plain_cost.add(step.verify_ms)
        finish, tokens = step.finish, []
        known_text, known_thinking = len(self._text), len(self._thinking)
        for index, token in enumerate(step.tokens):
            tokens.append(self._describe(step, index))
            self._token_ids.append(token)
            self._take(self._splitter.add(self._detokenizer.add(token)))
            if self._stops.found:
                finish = "stop_string"  # tokens behind it are not part of the answer
                break
        if finish is not None:
            self._take(self._splitter.add(self._detokenizer.flush()))
            self._take(self._splitter.flush())
            self._text += self._stops.flush()
        return self._event(step, self._text[known_text:], self._thinking[known_thinking:], tuple(tokens)), finish

    def _take(self, split: Split) -> None:
        """Stop strings count in the answer only."""
        self._thinking += split.thinking
        self._text += self._stops.add(split.answer)

    def _event(self, step: DecodeStep, text: str, thinking: str, tokens: tuple[StepToken, ...]) -> Step:
        return Step(
            text=text,
            thinking=thinking,
            tokens=tokens,
            mode=step.mode,
            width=len(step.proposals) + 1,
            proposed=len(step.proposals),
            accepted=step.accepted,
            draft_ms=step.draft_ms,
            verify_ms=step.verify_ms,
            rollback_ms=step.rollback_ms,
            host_ms=step.host_ms,
            target_busy=self._spans(step.target_busy),
            draft_busy=self._spans(step.draft_busy),
            branch=step.branch,
            branches=step.branches,
            tokens_so_far=len(self._token_ids),
            elapsed_s=self._last_token_s - self._first_token_s,
            context_used=step.context_used,
            rejected=tuple(map(self._loaded.tokenizer.token_text, step.proposals[step.accepted :])),
        )

    def _describe(self, step: DecodeStep, index: int) -> StepToken:
        """Where the step's token `index` came from."""
        token = step.tokens[index]
        text = self._loaded.tokenizer.token_text(token)
        if index < step.accepted:
            return StepToken(token, text, "draft", index + 1)
        if not step.proposals:
            return StepToken(token, text, "plain")
        if index == len(step.proposals):
            return StepToken(token, text, "bonus")
        said = self._loaded.tokenizer.token_text(step.proposals[index])
        return StepToken(token, text, "correction", index + 1, said)

    def _spans(self, busy: tuple[Span, ...]) -> tuple[BusySpan, ...]:
        return tuple(BusySpan(start - self._began_s, end - self._began_s) for start, end in busy)

    def _done(self, prompt_tokens: int, finish: FinishReason) -> Done:
        tokens = len(self._token_ids)
        decode_s = self._last_token_s - self._first_token_s
        return Done(
            text=self._text,
            thinking=self._thinking,
            token_ids=tuple(self._token_ids),
            tokens=tokens,
            steps=self._steps,
            accepted_per_step=(tokens - 1) / self._steps if self._steps else 0.0,
            proposed=self._proposed,
            accepted=self._accepted,
            tokens_per_second=(tokens - 1) / decode_s if decode_s > 0 else 0.0,
            time_to_first_token_s=self._first_token_s - self._began_s if tokens else 0.0,
            prompt_tokens=prompt_tokens,
            reused_tokens=self._reused,
            decode_s=decode_s,
            plain_ms_per_token=self._loaded.plain_cost.pass_ms,
            mode=self._request.options.mode,
            finish_reason=finish,
        )


def check_options(options: GenerateOptions, loaded: LoadedPair) -> int:
    """The rows of a pass for these options. Raises `BadRequest` where the pair cannot do what they ask."""
    if options.mode in loaded.missing:
        raise BadRequest(
            f"{loaded.pair.name} cannot decode in mode {options.mode}: {loaded.missing[options.mode]}",
            "Choose another mode.",
        )
    if options.mode not in loaded.modes:
        raise BadRequest(
            f"{loaded.pair.name} has no draft, so it cannot decode in mode {options.mode}.", "Choose mode auto."
        )
    if options.max_tokens < 1:
        raise BadRequest(f"An answer needs at least one token, not {options.max_tokens}.")
    if options.mode == "plain" or options.width is None:
        return loaded.most_rows
    if not 1 <= options.width <= loaded.most_rows:
        block = ", the draft's block" if loaded.drafter else ""
        raise BadRequest(f"The width must lie between 1 and {loaded.most_rows}{block}, not {options.width}.")
    return options.width


class OnChange(Protocol):
    """Is told of a change of mode."""

    def __call__(self, mode: Mode, reason: str, cause: ChangeCause) -> None:
        """From the next step on it is `mode`; `reason` is a sentence for the user."""


def ignore_change(mode: Mode, reason: str, cause: ChangeCause) -> None:
    """See `OnChange`."""


def make_source(mode: Mode, loaded: LoadedPair, sampler: Sampler, changed: OnChange = ignore_change) -> Source:
    """The source of proposals for a mode that the pair has."""
    if mode == "auto" and loaded.controller is not None:
        make = partial(_drafting, loaded=loaded, sampler=sampler, changed=changed)
        return AutoSource(loaded.session, loaded.most_rows, loaded.controller, make, partial(changed, cause="choice"))
    if mode in ("plain", "auto"):
        return PlainSource()
    if mode == "lookup":
        return LookupSource(loaded.session, loaded.most_rows)
    return _drafting(mode, loaded, sampler, changed)


def _drafting(mode: Mode, loaded: LoadedPair, sampler: Sampler, changed: OnChange) -> Source:
    session, programs = loaded.session, loaded.programs
    assert loaded.drafter is not None
    serial = partial(SerialSource, session, loaded.drafter, sampler)
    if programs is None or mode == "gpu":
        return serial()
    programs.share_processor(False)
    failed = partial(changed, cause="failure")
    if mode == "ane":
        return FallbackSource(AneSource(session, programs.drafter, sampler), serial, failed)
    mirror = MirrorSource(
        session,
        programs.drafter,
        sampler,
        programs.thread,
        programs.outcomes,
        programs.budget,
        programs.share_processor,
    )
    return FallbackSource(mirror, serial, failed)
