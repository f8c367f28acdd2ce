"""Checks a pair: decodes prompts plainly and in its other modes, and compares the answers token for token.

Where an answer leaves the plain one, the plain passes up to there are run again, to see how far the target preferred
its own token to the mode's. The check has sessions of its own: that of the last conversation stays as it is, and what a
broken mode leaves behind does not reach plain decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from statistics import median
from typing import cast

import mlx.core as mx

from core.check_messages import Check, CheckedPrompt, CheckStarted, Divergence, ModeVerdict, Verdict
from core.engine.answer import check_options
from core.engine.decode import DecodeStep, Limits
from core.engine.loader import LoadedPair
from core.engine.measure import decode_anew
from core.engine.prompt import render_prompt
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.step_figures import hit_rate, overlap, tokens_of, tokens_per_second, tokens_per_step
from core.errors import BadRequest, Cancelled, PromptTooLong
from core.protocol import ChangeCause, ChatMessage, GenerateOptions, MissingMode, Mode, Progress

NEAR_TIE_LOGITS = 1e-3
"""In float32: twelve times what passes of different widths were seen to differ by (8e-5 on the demo pair, OpenBLAS)."""
_NEAR_TIE_STEPS = 4
"""In coarser types: so many steps from one number to the next. Chosen, not measured: MLX's 16-bit arithmetic on a CPU
gives the same row at every width."""


@dataclass
class _Findings:
    """What is known of one mode so far."""

    answers: list[list[DecodeStep]] = field(default_factory=list)
    divergences: list[Divergence] = field(default_factory=list)

    def verdict(self, mode: Mode, prompts: int) -> ModeVerdict:
        steps = [step for answer in self.answers for step in answer]
        timed = [answer for answer in self.answers if len(answer) > 1]
        worst_first = sorted(self.divergences, key=lambda divergence: divergence.near_tie)  # keeps their order else
        return ModeVerdict(
            mode=mode,
            equal=prompts - len(worst_first),
            prompts=prompts,
            first_divergence=worst_first[0] if worst_first else None,
            tokens_per_second=median([tokens_per_second(answer) for answer in timed] or [0.0]),
            accepted_per_step=median([tokens_per_step(answer) for answer in timed] or [0.0]),
            hit_rate=hit_rate(steps),
            overlap=overlap(steps),
        )


class PairCheck:
    """One check under way. Iterate over `events()` once; the last event is `Verdict`."""

    def __init__(self, loaded: LoadedPair, request: Check, cancelled: Callable[[], bool]) -> None:
        """Raises `BadRequest` for impossible options and for modes that were named and that the pair does not have,
        `PromptTooLong`, and the errors of the chat template.
        """
        self._request = request
        self._cancelled = cancelled
        self._modes = _compared_modes(loaded, request)
        self._options = GenerateOptions(
            max_tokens=request.max_tokens, temperature=request.temperature, seed=request.seed
        )
        # A mode that was named and is missing is refused; the others are told.
        self._missing = tuple(MissingMode(mode, reason) for mode, reason in loaded.missing.items())
        self._prompts = [_rendered(loaded, request.prompts, index) for index in range(len(request.prompts))]
        self._limits = Limits(request.max_tokens, loaded.tokenizer.eos_ids, loaded.most_rows)
        self._loaded = replace(loaded, session=Session(loaded.target, loaded.drafter))
        self._sampler = Sampler(self._options, loaded.target.vocab_size)

    def events(self) -> Iterator[Progress | CheckStarted | CheckedPrompt | Verdict]:
        """`CheckStarted`, `Progress` and `CheckedPrompt` of each prompt in each mode, `Verdict`. Raises `Cancelled`."""
        modes: tuple[Mode, ...] = ("plain", *self._modes)
        prompts = len(self._prompts)
        yield CheckStarted(modes, self._missing, prompts)
        findings = {mode: _Findings() for mode in modes}
        done = 0
        for prompt in range(prompts):
            plain: tuple[int, ...] = ()
            for mode in modes:
                yield Progress(f"decoding prompt {prompt + 1} in mode {mode}", done, prompts * len(modes))
                steps, fell_back = self._answer(prompt, mode)
                divergence = None
                if mode == "plain":
                    plain = tokens_of(steps)
                elif plain != tokens_of(steps):
                    divergence = self._divergence(prompt, plain, tokens_of(steps))
                    findings[mode].divergences.append(divergence)
                findings[mode].answers.append(steps)
                done += 1
                yield _checked_prompt(mode, prompt, steps, divergence, fell_back)
        yield Verdict(tuple(findings[mode].verdict(mode, prompts) for mode in modes))

    def _answer(self, prompt: int, mode: Mode) -> tuple[list[DecodeStep], str]:
        """The steps of an answer, and why the draft's programs were given up within it."""
        loaded = self._loaded
        if mode == "plain":
            loaded = replace(loaded, session=Session(loaded.target, loaded.drafter))
        given_up: list[str] = []

        def note(mode: Mode, reason: str, cause: ChangeCause) -> None:  # noqa: ARG001
            if cause == "failure":
                given_up.append(reason)

        steps = decode_anew(
            loaded,
            self._prompts[prompt],
            mode,
            self._limits,
            self._options,
            self._cancelled,
            note,
        )
        return steps, given_up[0] if given_up else ""

    def _divergence(self, prompt: int, plain: Sequence[int], other: Sequence[int]) -> Divergence:
        """Where two answers that differ do so first."""
        both = enumerate(zip_longest(plain, other))
        position, ours, theirs = next((at, one, two) for at, (one, two) in both if one != two)
        margin, near_tie_below = None, NEAR_TIE_LOGITS
        if ours is not None and theirs is not None:
            logits = self._plain_logits(prompt, plain[:position])
            scores = self._sampler.scores(logits, len(self._prompts[prompt]) + position)[0]
            margin = _number(scores[ours] - scores[theirs]) * (self._options.temperature or 1.0)
            near_tie_below = near_tie_logits(logits[0, ours])
        text = self._loaded.tokenizer.token_text
        return Divergence(
            prompt=prompt,
            position=position,
            plain_token=ours,
            plain_said="" if ours is None else text(ours),
            mode_token=theirs,
            mode_said="" if theirs is None else text(theirs),
            margin=margin,
            near_tie_below=near_tie_below,
            near_tie=margin is not None and abs(margin) < near_tie_below,
        )

    def _plain_logits(self, prompt: int, answer: Sequence[int]) -> mx.array:
        """[1, vocabulary]: what plain decoding chose the token after `answer` by, from the same passes again."""
        session, ids = Session(self._loaded.target, None), self._prompts[prompt]
        session.read(ids, self._cancelled)
        for token in (ids[-1], *answer):
            if self._cancelled():
                raise Cancelled("Stopped while comparing answers.")
            forward = session.forward(mx.array([token], dtype=mx.uint32))
            mx.eval(forward.logits)
            session.commit([token], forward.taps)
        return forward.logits


def near_tie_logits(logit: mx.array) -> float:
    """Below which difference another logit is as good as this one: rounding alone may turn their order round."""
    step = float(mx.finfo(logit.dtype).eps) * abs(_number(logit))
    return max(NEAR_TIE_LOGITS, _NEAR_TIE_STEPS * step)


def _number(scalar: mx.array) -> float:
    return cast(float, scalar.item())


def _compared_modes(loaded: LoadedPair, request: Check) -> tuple[Mode, ...]:
    """The modes to compare with plain decoding. Raises `BadRequest`."""
    modes: tuple[Mode, ...] = tuple(dict.fromkeys(mode for mode in request.modes or loaded.modes if mode != "plain"))
    wanted: tuple[Mode, ...] = ("plain", *modes)
    for mode in wanted:
        check_options(GenerateOptions(mode, max_tokens=request.max_tokens), loaded)
    if not modes:
        raise BadRequest("A check needs a mode beside plain.")
    if not request.prompts:
        raise BadRequest("A check needs at least one prompt.")
    return modes


def _rendered(loaded: LoadedPair, prompts: Sequence[str], index: int) -> tuple[int, ...]:
    """The ids of a prompt as the only message of a conversation. Raises `PromptTooLong` and the template's errors."""
    ids = render_prompt(loaded.tokenizer, [ChatMessage("user", prompts[index])]).ids
    if len(ids) >= loaded.target.context_length:
        raise PromptTooLong(
            f"Prompt {index + 1} has {len(ids):,} tokens; this model reads {loaded.target.context_length:,}.",
            "Shorten it, or leave it out.",
        )
    return ids


def _checked_prompt(
    mode: Mode, prompt: int, steps: Sequence[DecodeStep], divergence: Divergence | None, fell_back: str
) -> CheckedPrompt:
    return CheckedPrompt(
        mode=mode,
        prompt=prompt,
        tokens=len(tokens_of(steps)),
        tokens_per_second=tokens_per_second(steps),
        accepted_per_step=tokens_per_step(steps),
        divergence=divergence,
        fell_back=fell_back,
    )
