"""A race in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.language import tr, trn
from app.pairs.mode_selector import Devices, mode_label
from app.race.race_model import RaceModel, RaceState
from app.race.recording import Difference, Moment, Recording, first_difference
from app.stats import words
from app.stats.totals import MEANINGFUL_TOKENS

_MOST_SHOWN = 60


@dataclass(frozen=True)
class Result:
    """What a race came to."""

    sentence: str
    dress: Literal["good", "bad", ""] = ""


def result(model: RaceModel, devices: Devices) -> Result:
    """The verdict on the text, then on the speed; empty while a race is under way."""
    if model.state is RaceState.STOPPED:
        return Result(tr("Stopped before both sides had ended: no verdict."))
    if model.state is RaceState.FAILED:
        return Result(tr("The race broke off: no verdict."), "bad")
    if model.state is not RaceState.DONE:
        return Result("")
    difference = first_difference(model.left, model.right)
    if difference is not None:
        return Result(f"{difference_sentence(difference, mode_label(model.right.mode, devices))}", "bad")
    tokens = len(model.left.token_ids)
    same = trn(
        "Same text: {tokens} token, token for token.", "Same text: {tokens} tokens, token for token.", tokens
    ).format(tokens=tokens)
    return Result(f"{same} {speed_sentence(model.left, model.right, devices)}".strip(), "good")


def speed_sentence(left: Recording, right: Recording, devices: Devices) -> str:
    """How many times as fast the right side was; empty where the answer is too short to say."""
    if left.done is None or right.done is None or min(left.done.tokens, right.done.tokens) < MEANINGFUL_TOKENS:
        return tr("Too short to compare speeds.") if left.done and right.done else ""
    slow, fast = left.done.tokens_per_second, right.done.tokens_per_second
    if not slow or not fast:
        return ""
    text = tr("{mode}: {speed_up:.2f} times the speed of plain decoding, {fast:.1f} against {slow:.1f} tok/s.")
    return text.format(mode=mode_label(right.mode, devices), speed_up=fast / slow, fast=fast, slow=slow)


def difference_sentence(difference: Difference, mode: str) -> str:
    """Where the texts part, and what each says there."""
    if difference.left is None:
        text = tr("First difference at token {position}: plain decoding ended, {mode} said {right}.")
    elif difference.right is None:
        text = tr("First difference at token {position}: plain decoding said {left}, {mode} ended.")
    else:
        text = tr("First difference at token {position}: plain decoding said {left}, {mode} said {right}.")
    left, right = (words_shown(said or "") for said in (difference.left, difference.right))
    parted = text.format(position=difference.position, mode=mode, left=left, right=right)
    return " ".join((parted, tr("A check of the pair tells whether rounding alone decided there.")))


def words_shown(text: str) -> str:
    """A token's text, with spaces and line ends visible."""
    shown = repr(text)
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"


def side_line(moment: Moment) -> str:
    """`48.3 tok/s  ·  142 tokens  ·  2.94 s`."""
    tokens = trn("{tokens} token", "{tokens} tokens", moment.tokens).format(tokens=moment.tokens)
    return f"{words.speed(moment.tokens_per_second)} tok/s  ·  {tokens}  ·  {moment.elapsed_s:.2f} s"


def first_token_line(recording: Recording) -> str:
    """The time to the first token, which is no part of the race, and why it may differ."""
    done = recording.done
    if done is None or not done.tokens:
        return ""
    text = tr("First token after {time}, {read} of {tokens} tokens of the prompt read")
    read = done.prompt_tokens - done.reused_tokens
    return text.format(time=words.seconds(done.time_to_first_token_s), read=read, tokens=done.prompt_tokens)


def status(model: RaceModel, replaying: bool, devices: Devices) -> str:
    """What happens now."""
    mode = mode_label(model.right.mode, devices)
    return {
        RaceState.LEFT: tr("Plain decoding runs now, alone."),
        RaceState.RIGHT: tr("{mode} runs now, alone, with the same seed.").format(mode=mode),
        RaceState.STOPPING: tr("Stopping at the next step."),
        RaceState.DONE: tr("Both on one clock, as they were.") if replaying else tr("Both have ended."),
    }.get(model.state, "")


def report(model: RaceModel, prompt: str, devices: Devices) -> str:
    """The race as text."""
    lines = [tr("Prompt: {prompt}").format(prompt=prompt)]
    for recording in (model.left, model.right):
        name = mode_label(recording.mode, devices)
        lines.append(f"{name}: {side_line(recording.now())}. {first_token_line(recording)}")
    lines.append(result(model, devices).sentence)
    if model.left.token_ids == model.right.token_ids:
        lines += ["", model.left.text]
    else:
        for recording in (model.left, model.right):
            lines += ["", f"{mode_label(recording.mode, devices)}:", recording.text]
    return "\n".join(lines)
