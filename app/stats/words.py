"""Figures in words and units, for labels and screen readers."""

from __future__ import annotations

from app.language import tr, trn
from app.pairs.mode_selector import Devices, mode_label
from app.stats.figures import Change, verdict
from app.stats.step_record import AnswerRecord, StepRecord
from app.stats.text_kind import TextKind
from app.stats.totals import Position, compare_with_plain
from core.chats import Figures as SavedFigures
from core.protocol import Mode

MISSING = "—"
_SEPARATOR = "  ·  "
_KINDS: dict[TextKind, str] = {"code": tr("code"), "prose": tr("prose"), "thinking": tr("thinking")}


def verdict_text(speed_up: float) -> str:
    """The verdict on speculation in a few words that cannot flatter."""
    return {
        "faster": tr("{speed_up:.1f}x plain speed"),
        "equal": tr("as fast as plain"),
        "slower": tr("slower: {speed_up:.2f}x plain speed"),
    }[verdict(speed_up)].format(speed_up=speed_up)


def verdict_sentence(speed_up: float) -> str:
    """The verdict as a sentence."""
    return {
        "faster": tr("This answer came {speed_up:.2f} times as fast as plain decoding would have given it."),
        "equal": tr("This answer came about as fast as plain decoding would have given it."),
        "slower": tr("Speculation loses on this text: {speed_up:.2f} times the speed of plain decoding."),
    }[verdict(speed_up)].format(speed_up=speed_up)


def answer_line(done: SavedFigures) -> str:
    """The figures under an answer; the comparison with plain decoding has a line of its own."""
    parts = [tr("after the break")] if done.misses_beginning else []
    if done.tokens_per_second:
        parts.append(f"{done.tokens_per_second:.1f} tok/s")
    parts.append(trn("{tokens} token", "{tokens} tokens", done.tokens).format(tokens=done.tokens))
    parts.append(tr("{time} to first token").format(time=seconds(done.time_to_first_token_s)))
    if done.proposed and done.accepted_per_step:
        parts.append(tr("{tokens:.1f} tokens per step").format(tokens=done.accepted_per_step))
    ending = {
        "cancelled": tr("stopped"),
        "length": tr("cut at the token limit"),
        "context": tr("the context is full"),
    }
    if done.finish_reason in ending:
        parts.append(ending[done.finish_reason])
    line = _SEPARATOR.join(parts)
    compared = compare_with_plain(done)
    if compared:
        speed_up = tr("{speed_up:.2f}x plain speed").format(speed_up=compared.speed_up)
        times = tr("plain would take {plain}, took {taken}")
        took = times.format(plain=seconds(compared.plain_s), taken=seconds(compared.took_s))
        line += f"\n{speed_up}{_SEPARATOR}{took}"
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
    return tr("{used:,} of {length:,}").format(used=used or 0, length=length)


def hidden_middle(used: int, seen: int) -> str:
    """What the draft's programs do not see of a context of `used` tokens."""
    if used <= seen:
        text = tr("The draft's programs see {seen:,} tokens: of longer conversations not the middle (mark).")
        return text.format(seen=seen)
    text = tr(
        "The draft's programs see the beginning and the end, {seen:,} tokens: {hidden:,} in the middle are hidden."
    )
    return text.format(seen=seen, hidden=used - seen)


def counterfactual(took_s: float | None, plain_s: float | None) -> str:
    """`12.4 s; plain decoding would have taken 31.0 s`."""
    if took_s is None or plain_s is None:
        return MISSING
    text = tr("{taken}; plain decoding would have taken {plain}")
    return text.format(taken=seconds(took_s), plain=seconds(plain_s))


def inactive_text(reason: str) -> str:
    """That no draft is at work, and why."""
    return tr("speculation inactive: {reason}").format(reason=reason)


def step_lines(step: StepRecord, devices: Devices) -> str:
    """One step of the timeline, in two lines."""
    counts = trn("{tokens} token", "{tokens} tokens", step.tokens).format(tokens=step.tokens)
    if step.proposed:
        accepted = tr("{accepted} of {proposed} accepted, {tokens}")
        counts = accepted.format(accepted=step.accepted, proposed=step.proposed, tokens=counts)
    if step.branch is not None:
        guessed = {
            "hit": tr("{counts}, hit among {branches} outcomes drafted for"),
            "miss": tr("{counts}, miss among {branches} outcomes drafted for"),
        }[step.branch]
        counts = guessed.format(counts=counts, branches=step.branches)
    done = tr("{mode}, step {number}, {begin:.2f} to {end:.2f} s: {counts}").format(
        mode=mode_label(step.mode, devices), number=step.number, begin=step.begin_s, end=step.end_s, counts=counts
    )
    times = (
        tr("draft {draft}, verify {verify}, other {other}") if step.draft_ms else tr("verify {verify}, other {other}")
    )
    draft, verify, other = (milliseconds(each) for each in (step.draft_ms, step.verify_ms, step.other_ms))
    return f"{done}\n{times.format(draft=draft, verify=verify, other=other)}"


def position_line(number: int, position: Position) -> str:
    """One position of the block: `d3: accepted in 43 of 88 blocks (49 %)`."""
    accepted, offered = position.accepted, position.offered
    if position.share is None:
        text = tr("d{number}: accepted in {accepted} of {offered} blocks, too few to say more")
        return text.format(number=number, accepted=accepted, offered=offered)
    text = tr("d{number}: accepted in {accepted} of {offered} blocks ({percent:.0f} %)")
    return text.format(number=number, accepted=accepted, offered=offered, percent=100 * position.share)


def overlap_line(record: AnswerRecord) -> str:
    """Hits, misses and what was drafted in vain: `34 hits, 12 misses; 18 % of the draft's time discarded`."""
    if record.hit_rate is None:
        return tr("no outcome was guessed: the draft works after the verification") if record.draft_s else ""
    discarded = 100 * record.discarded_s / record.draft_s if record.draft_s else 0.0
    hits = trn("{hits} hit", "{hits} hits", record.hits).format(hits=record.hits)
    misses = trn("{misses} miss", "{misses} misses", record.misses).format(misses=record.misses)
    text = tr("{hits}, {misses}; {discarded:.0f} % of the draft's time was for nothing")
    return text.format(hits=hits, misses=misses, discarded=discarded)


def change_line(change: Change, devices: Devices) -> str:
    """A change of mode: when, to what, and why."""
    text = tr("{time:.1f} s: failed, now {mode}. {reason}") if change.failure else tr("{time:.1f} s: {mode}. {reason}")
    return text.format(time=change.at_s, mode=mode_label(change.mode, devices), reason=change.reason)


def text_kinds(kinds: tuple[tuple[TextKind, float], ...]) -> str:
    """Tokens per step by kind of text: `code 4.1, prose 2.3`."""
    return ", ".join(f"{_KINDS[kind]} {per_step:.1f}" for kind, per_step in kinds) or MISSING
