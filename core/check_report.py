"""What a check of a pair came to, as text: for the terminal, and to be copied from the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.check_messages import Check, CheckedPrompt, CheckStarted, Divergence, ModeVerdict, Verdict
from core.modes import Mode

NEAR_TIE = (
    "At a near-tie the target finds two tokens all but equally likely, and rounding decides: "
    "both answers are the target's own."
)
_HEADER = f"{'mode':8}{'equal':>10}{'tok/s':>9}{'vs plain':>10}{'tok/step':>10}{'hits':>7}{'overlap':>9}"


def heading(request: Check, started: CheckStarted) -> str:
    """What is checked, what is not and why, and the head of the table of prompts."""
    how = f"temperature {request.temperature:g}, seed {request.seed}" if request.temperature else "greedy"
    return "\n".join(
        [
            f"{request.pair.name}: {started.prompts} prompts, {request.max_tokens} tokens at most, {how}",
            *(f"Not checked: {missing.mode}. {missing.reason}" for missing in started.missing),
            "Tokens per second, and how the answer compares with the plain one: = equal, ~ near-tie, ! different",
            "",
            "prompt" + "  ".join(f"{mode:>10}" for mode in started.modes),
        ]
    )


def mark(checked: CheckedPrompt) -> str:
    """How an answer compares with the plain one, in one character."""
    if checked.mode == "plain":
        return " "
    if checked.divergence is None:
        return "="
    return "~" if checked.divergence.near_tie else "!"


def figures(verdict: Verdict) -> str:
    """All modes, one a line."""
    plain_speed = verdict.modes[0].tokens_per_second
    return "\n".join([_HEADER, *(_figures_row(each, plain_speed) for each in verdict.modes)])


def _figures_row(each: ModeVerdict, plain_speed: float) -> str:
    ratio = f"{each.tokens_per_second / plain_speed:.2f}x" if plain_speed else ""
    hits = "" if each.hit_rate is None else f"{each.hit_rate:.0%}"
    return (
        f"{each.mode:8}{f'{each.equal} of {each.prompts}':>10}{each.tokens_per_second:>9.1f}{ratio:>10}"
        f"{each.accepted_per_step:>10.2f}{hits:>7}{each.overlap:>9.2f}"
    )


def difference_line(mode: Mode, divergence: Divergence) -> str:
    """Where an answer left the plain one, and by how little."""
    said = " and ".join(
        f"{who} {'ended' if token is None else 'said ' + repr(text)}"
        for who, token, text in (
            ("plain decoding", divergence.plain_token, divergence.plain_said),
            (mode, divergence.mode_token, divergence.mode_said),
        )
    )
    kind = "a near-tie" if divergence.near_tie else "a difference"
    margin = "" if divergence.margin is None else f", margin {divergence.margin:.2g} logits"
    return f"{mode}, prompt {divergence.prompt + 1}, token {divergence.position + 1}: {said} ({kind}{margin})"


def notes(checked: CheckedPrompt) -> list[str]:
    """What is to be said of a prompt in a mode beyond its figures."""
    found = []
    if checked.divergence is not None:
        found.append(difference_line(checked.mode, checked.divergence))
    if checked.fell_back:
        found.append(f"{checked.mode}, prompt {checked.prompt + 1}: {checked.fell_back}")
    return found


def verdict_sentence(verdict: Verdict, name: Callable[[Mode], str] = str) -> str:
    """What the check came to; `name` names a mode."""
    lossy = [name(each.mode) for each in verdict.modes if not each.lossless]
    if lossy:
        return f"NOT the answers of plain decoding: {', '.join(lossy)}."
    near_ties = sum(each.prompts - each.equal for each in verdict.modes)
    if near_ties:
        return f"The answers are those of plain decoding but for {near_ties} that left them at a near-tie. {NEAR_TIE}"
    return "All answers are those of plain decoding, token for token."


def report(request: Check, started: CheckStarted, checked: Sequence[CheckedPrompt], verdict: Verdict | None) -> str:
    """All of it as the terminal shows it, as far as the check went."""
    lines = [heading(request, started)]
    for prompt in range(started.prompts):
        cells = [f"{each.tokens_per_second:>10.1f} {mark(each)}" for each in checked if each.prompt == prompt]
        if cells:
            lines.append(f"{prompt + 1:<6}{''.join(cells)}")
    if verdict is not None:
        lines += ["", figures(verdict)]
    lines += ["", *(note for each in checked for note in notes(each))]
    lines.append("Stopped before its end: no verdict." if verdict is None else verdict_sentence(verdict))
    return "\n".join(lines)
