"""The messages about checking a pair: whether its modes give the text of plain decoding, and how fast."""

from __future__ import annotations

import msgspec

from core.message import Message
from core.modes import MissingMode, Mode
from core.pairs import Pair

# ---------------------------------------------------------------- requests


class Check(Message, frozen=True):
    """Decode every prompt plainly and in each mode, and compare the answers token for token.

    Answered by `Progress`..., `CheckStarted`, then `Progress` and `CheckedPrompt` for every prompt and mode, then
    `Verdict`, or `Failed`.
    """

    pair: Pair
    prompts: tuple[str, ...]
    max_tokens: int = 64
    modes: tuple[Mode, ...] = ()
    """Those to compare with plain decoding; empty for all that the pair has."""
    temperature: float = 0.0
    """0 takes the most likely token."""
    seed: int = 0


# ------------------------------------------------------------------ events


class CheckStarted(Message, frozen=True):
    """What will be checked: each prompt in each mode."""

    modes: tuple[Mode, ...]
    """In the order in which each prompt is decoded; `plain` comes first."""
    missing: tuple[MissingMode, ...]
    """Modes that the pair might have and cannot use."""
    prompts: int


class Divergence(msgspec.Struct, frozen=True):
    """Where an answer first differs from the plain one."""

    prompt: int
    """0-based."""
    position: int
    """Tokens of the answer before it."""
    plain_token: int | None
    """None where the plain answer had ended."""
    plain_said: str
    """The token's text."""
    mode_token: int | None
    """None where the mode's answer had ended."""
    mode_said: str
    margin: float | None
    """How far plain decoding preferred its own token to the mode's, in logits, with the noise of sampling in them: of
    the two best tokens, where the mode said the second. None where one of the answers had ended."""
    near_tie_below: float
    """Margins below this one are near-ties: the arithmetic of passes of different widths may differ by as much."""
    near_tie: bool


class CheckedPrompt(Message, frozen=True):
    """One prompt was decoded in one mode."""

    mode: Mode
    prompt: int
    """0-based."""
    tokens: int
    tokens_per_second: float
    """Tokens after the first over the time since the first; 0 for answers of one token."""
    accepted_per_step: float
    """Tokens per step; 1.0 in plain mode, 0 without steps."""
    divergence: Divergence | None
    """None where the answer is the plain one."""
    fell_back: str
    """Why the draft's programs were given up within the answer; empty where they were not."""


class ModeVerdict(msgspec.Struct, frozen=True):
    """One mode over all prompts."""

    mode: Mode
    equal: int
    """Prompts whose answer is the plain one, token for token."""
    prompts: int
    first_divergence: Divergence | None
    """The first that is no near-tie; where all are near-ties, the first; None where there are none."""
    tokens_per_second: float
    """The median over the prompts."""
    accepted_per_step: float
    """The median over the prompts."""
    hit_rate: float | None
    """Of the steps whose outcome was guessed, the share that was guessed right; None where nothing was guessed."""
    overlap: float
    """The share of the draft's time that lay beside the target's."""

    @property
    def lossless(self) -> bool:
        """Whether every answer is the plain one, or leaves it at a near-tie."""
        return self.first_divergence is None or self.first_divergence.near_tie


class Verdict(Message, frozen=True):
    """The result of `Check`."""

    modes: tuple[ModeVerdict, ...]
    """Plain comes first."""

    @property
    def lossless(self) -> bool:
        """Whether all modes are."""
        return all(each.lossless for each in self.modes)
