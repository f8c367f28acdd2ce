"""Figures in words and units, for labels and screen readers."""

from __future__ import annotations

from app.pairs.mode_selector import Devices, mode_label
from app.stats.figures import Change, verdict
from app.stats.step_record import AnswerRecord, StepRecord
from app.stats.text_kind import TextKind
from app.stats.totals import Position, compare_with_plain
from core.chats import Figures as SavedFigures
from core.protocol import Mode

MISSING = "—"
_SEPARATOR = "  ·  "


def verdict_text(speed_up: float) -> str:
    """The verdict on speculation in a few words that cannot flatter."""
    return {
        "faster": f"{speed_up:.1f}x plain speed",
        "equal": "as fast as plain",
        "slower": f"slower: {speed_up:.2f}x plain speed",
    }[verdict(speed_up)]


def verdict_sentence(speed_up: float) -> str:
    """The verdict as a sentence."""
    return {
        "faster": f"This answer came {speed_up:.2f} times as fast as plain decoding would have given it.",
        "equal": "This answer came about as fast as plain decoding would have given it.",
        "slower": f"Speculation loses on this text: {speed_up:.2f} times the speed of plain decoding.",
    }[verdict(speed_up)]


def answer_line(done: SavedFigures) -> str:
    """The figures under an answer; the comparison with plain decoding has a line of its own."""
    parts = ["after the break"] if done.misses_beginning else []
    if done.tokens_per_second:
        parts.append(f"{done.tokens_per_second:.1f} tok/s")
    parts.append(f"{done.tokens} token{'' if done.tokens == 1 else 's'}")
    parts.append(f"{seconds(done.time_to_first_token_s)} to first token")
    if done.proposed and done.accepted_per_step:
        parts.append(f"{done.accepted_per_step:.1f} tokens per step")
    ending = {"cancelled": "stopped", "length": "cut at the token limit", "context": "the context is full"}
    if done.finish_reason in ending:
        parts.append(ending[done.finish_reason])
    line = _SEPARATOR.join(parts)
    compared = compare_with_plain(done)
    if compared:
        took = f"plain would take {seconds(compared.plain_s)}, took {seconds(compared.took_s)}"
        line += f"\n{compared.speed_up:.2f}x plain speed{_SEPARATOR}{took}"
    return line


def speed(tokens_per_second: float | None) -> str:
    """Tokens per second without its unit: `48.3`, `218`."""
    if tokens_per_second is None:
        return MISSING
    return f"{tokens_per_second:.1f}" if tokens_per_second < 100 else f"{tokens_per_second:.0f}"


def decoded_by(modes: tuple[tuple[Mode, float], ...], devices: Devices) -> list[str]:
    """How an answer was decoded, by mode: `Compiled draft 82 %`; without a share where it is the only one."""
    if len(modes) == 1:
        return [mode_label(modes[0][0], devices)]
    return [f"{mode_label(mode, devices)} {100 * share:.0f} %" for mode, share in modes]


def seconds(value: float | None) -> str:
    """A duration: `0.21 s`, `12.4 s`."""
    if value is None:
        return MISSING
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def milliseconds(value: float | None) -> str:
    """A short duration: `0.4 ms`, `57 ms`."""
    if value is None:
        return MISSING
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def memory(value: int | None) -> str:
    """Bytes as MB or GB (powers of ten)."""
    if value is None:
        return MISSING
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def count_of(used: int | None, length: int | None) -> str:
    """`1,204 of 8,192`."""
    if length is None:
        return MISSING
    return f"{used or 0:,} of {length:,}"


def counterfactual(took_s: float | None, plain_s: float | None) -> str:
    """`12.4 s; plain decoding would have taken 31.0 s`."""
    if took_s is None or plain_s is None:
        return MISSING
    return f"{seconds(took_s)}; plain decoding would have taken {seconds(plain_s)}"


def inactive_text(reason: str) -> str:
    """That no draft is at work, and why."""
    return f"speculation inactive: {reason}"


def step_lines(step: StepRecord, devices: Devices) -> str:
    """One step of the timeline, in two lines."""
    span = f"step {step.number}, {step.begin_s:.2f} to {step.end_s:.2f} s"
    tokens = f"{step.tokens} token{'' if step.tokens == 1 else 's'}"
    if step.proposed:
        tokens = f"{step.accepted} of {step.proposed} accepted, {tokens}"
    guessed = "" if step.branch is None else f", {step.branch} among {step.branches} outcomes drafted for"
    draft = f"draft {milliseconds(step.draft_ms)}, " if step.draft_ms else ""
    times = f"{draft}verify {milliseconds(step.verify_ms)}, other {milliseconds(step.other_ms)}"
    return f"{mode_label(step.mode, devices)}, {span}: {tokens}{guessed}\n{times}"


def position_line(number: int, position: Position) -> str:
    """One position of the block: `d3: accepted in 43 of 88 blocks (49 %)`."""
    counted = f"d{number}: accepted in {position.accepted} of {position.offered} blocks"
    if position.share is None:
        return f"{counted}, too few to say more"
    return f"{counted} ({100 * position.share:.0f} %)"


def overlap_line(record: AnswerRecord) -> str:
    """Hits, misses and what was drafted in vain: `34 hits, 12 misses; 18 % of the draft's time discarded`."""
    if record.hit_rate is None:
        return "no outcome was guessed: the draft works after the verification" if record.draft_s else ""
    discarded = 100 * record.discarded_s / record.draft_s if record.draft_s else 0.0
    hits = f"{record.hits} hit{'' if record.hits == 1 else 's'}"
    misses = f"{record.misses} miss{'' if record.misses == 1 else 'es'}"
    return f"{hits}, {misses}; {discarded:.0f} % of the draft's time was for nothing"


def change_line(change: Change, devices: Devices) -> str:
    """A change of mode: when, to what, and why."""
    failed = "failed, now " if change.failure else ""
    return f"{change.at_s:.1f} s: {failed}{mode_label(change.mode, devices)}. {change.reason}"


def text_kinds(kinds: tuple[tuple[TextKind, float], ...]) -> str:
    """Tokens per step by kind of text: `code 4.1, prose 2.3`."""
    return ", ".join(f"{kind} {per_step:.1f}" for kind, per_step in kinds) or MISSING
