"""What a check found, in words, for the dialog and for screen readers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median

from app.check.check_model import CheckModel, CheckState
from app.language import tr
from app.pairs.mode_selector import Devices, mode_label
from app.stats.words import MISSING
from core.check_messages import CheckedPrompt, Divergence, ModeVerdict
from core.check_report import verdict_sentence
from core.modes import Mode

MODE_HEADER = (
    tr("Mode"),
    tr("Equal"),
    tr("First difference"),
    tr("Near-tie"),
    "tok/s",
    tr("Against plain"),
    tr("Tokens per step"),
    tr("Hits"),
    tr("Overlap"),
)
MODE_HELP = (
    tr("How the answers were decoded"),
    tr("Answers that are those of plain decoding, token for token"),
    tr("Where an answer first differs, and what each side said"),
    tr("Whether rounding alone decided there between two tokens"),
    tr("Median over the prompts, of the tokens after the first"),
    tr("The speed over that of plain decoding"),
    tr("Median over the prompts"),
    tr("Of the outcomes that were guessed, the share that was guessed right"),
    tr("The share of the draft's time that lay beside the target's"),
)


def prompt_cell(checked: CheckedPrompt) -> str:
    """A prompt in a mode: `48.3 =`."""
    if checked.mode == "plain":
        return f"{checked.tokens_per_second:.1f}"
    mark = "=" if checked.divergence is None else tr("near-tie") if checked.divergence.near_tie else tr("different")
    return f"{checked.tokens_per_second:.1f}  {mark}"


def prompt_cell_help(checked: CheckedPrompt) -> str:
    """The same as a sentence."""
    counts = tr("{tokens} tokens, {accepted:.2f} a step.")
    text = counts.format(tokens=checked.tokens, accepted=checked.accepted_per_step) + " "
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
        tr("{equal} of {prompts}").format(equal=equal, prompts=len(own)) if own else MISSING,
        MISSING if first is None else difference(first),
        MISSING if first is None else tr("yes") if first.near_tie else tr("no"),
        f"{median(each.tokens_per_second for each in own):.1f}" if own else MISSING,
        MISSING,
        f"{median(each.accepted_per_step for each in own):.2f}" if own else MISSING,
        MISSING,
        MISSING,
    )


def mode_cells(each: ModeVerdict, plain_speed: float, devices: Devices) -> tuple[str, ...]:
    """A row of the table of modes."""
    first = each.first_divergence
    near_tie = MISSING if first is None else tr("yes") if first.near_tie else tr("no")
    ratio = f"{each.tokens_per_second / plain_speed:.2f}x" if plain_speed else MISSING
    hits = MISSING if each.hit_rate is None else f"{each.hit_rate:.0%}"
    is_plain = each.mode == "plain"
    return (
        mode_label(each.mode, devices),
        tr("{equal} of {prompts}").format(equal=each.equal, prompts=each.prompts),
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
    plain = tr("the end") if divergence.plain_token is None else repr(divergence.plain_said)
    other = tr("the end") if divergence.mode_token is None else repr(divergence.mode_said)
    text = tr("prompt {prompt}, token {token}: {other} for {plain}")
    return text.format(prompt=divergence.prompt + 1, token=divergence.position + 1, other=other, plain=plain)


def missing_lines(missing: tuple[tuple[Mode, str], ...], devices: Devices) -> str:
    """The modes that were not checked, and why."""
    text = tr("Not checked: {mode}. {reason}")
    return "\n".join(text.format(mode=mode_label(mode, devices), reason=reason) for mode, reason in missing)


def summary(model: CheckModel, devices: Devices) -> tuple[str, str]:
    """What the check came to, and how that is to be dressed: `good`, `bad` or nothing."""
    if model.state is CheckState.DONE and model.verdict is not None:
        name = partial(mode_label, devices=devices)
        return verdict_sentence(model.verdict, name), "good" if model.verdict.lossless else "bad"
    if model.state is CheckState.STOPPED:
        return tr("Stopped before its end: no verdict."), ""
    if model.state is CheckState.FAILED:
        return tr("The check failed: no verdict."), "bad"
    if model.state is CheckState.STOPPING:
        return tr("Stopping at the next step."), ""
    if model.running:
        return "", ""
    return tr("Every answer is decoded plainly and in each mode of the pair, and compared token for token."), ""
