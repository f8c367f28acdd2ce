"""What a check found, in words, for the dialog and for screen readers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median

from app.check.check_model import CheckModel, CheckState
from app.pairs.mode_selector import Devices, mode_label
from app.stats.words import MISSING
from core.check_messages import CheckedPrompt, Divergence, ModeVerdict
from core.check_report import verdict_sentence
from core.modes import Mode

MODE_HEADER = (
    "Mode", "Equal", "First difference", "Near-tie", "tok/s", "Against plain", "Tokens per step", "Hits", "Overlap",
)  # fmt: skip
MODE_HELP = (
    "How the answers were decoded",
    "Answers that are those of plain decoding, token for token",
    "Where an answer first differs, and what each side said",
    "Whether rounding alone decided there between two tokens",
    "Median over the prompts, of the tokens after the first",
    "The speed over that of plain decoding",
    "Median over the prompts",
    "Of the outcomes that were guessed, the share that was guessed right",
    "The share of the draft's time that lay beside the target's",
)


def prompt_cell(checked: CheckedPrompt) -> str:
    """A prompt in a mode: `48.3 =`."""
    if checked.mode == "plain":
        return f"{checked.tokens_per_second:.1f}"
    mark = "=" if checked.divergence is None else "near-tie" if checked.divergence.near_tie else "different"
    return f"{checked.tokens_per_second:.1f}  {mark}"


def prompt_cell_help(checked: CheckedPrompt) -> str:
    """The same as a sentence."""
    text = f"{checked.tokens} tokens, {checked.accepted_per_step:.2f} a step. "
    if checked.divergence is not None:
        text += difference(checked.divergence) + ". "
    return (text + checked.fell_back).strip()


def running_cells(mode: Mode, checked: Sequence[CheckedPrompt], devices: Devices) -> tuple[str, ...]:
    """A row of the table of modes while the check goes on: what can be said of the prompts so far."""
    own = [each for each in checked if each.mode == mode]
    equal = sum(each.divergence is None for each in own)
    worst_first = sorted((each.divergence for each in own if each.divergence), key=lambda found: found.near_tie)
    first = worst_first[0] if worst_first else None
    return (
        mode_label(mode, devices),
        f"{equal} of {len(own)}" if own else MISSING,
        MISSING if first is None else difference(first),
        MISSING if first is None else "yes" if first.near_tie else "no",
        f"{median(each.tokens_per_second for each in own):.1f}" if own else MISSING,
        MISSING,
        f"{median(each.accepted_per_step for each in own):.2f}" if own else MISSING,
        MISSING,
        MISSING,
    )


def mode_cells(each: ModeVerdict, plain_speed: float, devices: Devices) -> tuple[str, ...]:
    """A row of the table of modes."""
    first = each.first_divergence
    near_tie = MISSING if first is None else "yes" if first.near_tie else "no"
    ratio = f"{each.tokens_per_second / plain_speed:.2f}x" if plain_speed else MISSING
    hits = MISSING if each.hit_rate is None else f"{each.hit_rate:.0%}"
    is_plain = each.mode == "plain"
    return (
        mode_label(each.mode, devices),
        f"{each.equal} of {each.prompts}",
        MISSING if first is None else difference(first),
        near_tie,
        f"{each.tokens_per_second:.1f}",
        MISSING if is_plain else ratio,
        f"{each.accepted_per_step:.2f}",
        hits,
        MISSING if is_plain else f"{each.overlap:.0%}",
    )


def difference(divergence: Divergence) -> str:
    """`prompt 3, token 12: "a" for "the"`."""
    plain = "the end" if divergence.plain_token is None else repr(divergence.plain_said)
    other = "the end" if divergence.mode_token is None else repr(divergence.mode_said)
    return f"prompt {divergence.prompt + 1}, token {divergence.position + 1}: {other} for {plain}"


def missing_lines(missing: tuple[tuple[Mode, str], ...], devices: Devices) -> str:
    """The modes that were not checked, and why."""
    return "\n".join(f"Not checked: {mode_label(mode, devices)}. {reason}" for mode, reason in missing)


def summary(model: CheckModel, devices: Devices) -> tuple[str, str]:
    """What the check came to, and how that is to be dressed: `good`, `bad` or nothing."""
    if model.state is CheckState.DONE and model.verdict is not None:
        name = partial(mode_label, devices=devices)
        return verdict_sentence(model.verdict, name), "good" if model.verdict.lossless else "bad"
    if model.state is CheckState.STOPPED:
        return "Stopped before its end: no verdict.", ""
    if model.state is CheckState.FAILED:
        return "The check failed: no verdict.", "bad"
    if model.state is CheckState.STOPPING:
        return "Stopping at the next step.", ""
    if model.running:
        return "", ""
    return "Every answer is decoded plainly and in each mode of the pair, and compared token for token.", ""
