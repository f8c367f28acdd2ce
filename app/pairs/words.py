"""Pairs, plans and downloads in words."""

from __future__ import annotations

from collections.abc import Iterator

from app.pairs.cards import Card
from app.pairs.downloads import PairProgress
from core.hub.progress import FileProgress
from core.units import clock, size

SEPARATOR = "  ·  "
_SWAPS = "It can be loaded anyway: the system may become slow, or end it."


def advice(recommended: Card | None, first_try: Card | None) -> str:
    """Which pair to take."""
    lines = ["A pair is a model that answers, and a small draft that makes it faster."]
    if recommended is not None:
        row, memory = recommended.row, recommended.memory
        machine = f"this machine with {size(memory.total_bytes)} of memory" if memory else "this machine"
        lines.append(f"For {machine}: {row.name} {row.precision}. {row.good_at}")
    if first_try is not None:
        row = first_try.row
        costs = "" if row.state == "ready" else f", {size(row.download_bytes)}"
        lines.append(f"For a first try: {row.name} {row.precision}{costs}. {row.good_at}")
    return "\n".join(lines)


def badge(card: Card) -> str:
    """The state of a pair in a word or two."""
    if card.loaded:
        return "loaded"
    if card.progress is not None:
        return "" if card.progress.state == "done" else card.progress.state
    if not card.row.compatibility.runs:
        return "cannot be run"
    return {"ready": "ready", "not downloaded": ""}.get(card.row.state, card.row.state)


def reasons(card: Card) -> str:
    """Why a pair cannot be run, and what is wrong with it on the disk; empty where nothing is."""
    lines = list(card.row.compatibility.reasons)
    if card.row.problem:
        lines.append(f"On the disk, but not sound: {card.row.problem}")
    return "\n".join(lines)


def notes(card: Card) -> str:
    """What to know before a pair is used."""
    lines = list(card.row.compatibility.warnings) if card.row.compatibility.runs else []
    if card.row.compatibility.runs and card.memory is not None and not card.memory.fits:
        lines.append(f"Memory is short: {card.memory.verdict} {_SWAPS}")
    return "\n".join(lines)


def facts(card: Card) -> str:
    """Size, memory and preparation in a few lines."""
    parts = []
    if card.row.download_bytes:
        parts.append(f"{size(card.row.download_bytes)} on disk")
    if card.memory is not None and (card.memory.fits or not card.row.compatibility.runs):
        parts.append(card.memory.verdict.rstrip("."))
    lines = [SEPARATOR.join(parts)]
    if card.row.preparation is not None:
        lines.append(f"Preparing the draft's programs: {card.row.preparation.words}")
    return "\n".join(line for line in lines if line)


def memory_lines(card: Card) -> str:
    """The sum of memory, a line each."""
    memory = card.memory
    if memory is None:
        return "The memory that it needs cannot be told from its config."
    rows = [f"{row.what}: {size(row.bytes)} ({row.how})" for row in memory.rows]
    rows.append(f"Together {size(memory.needed_bytes)} for {memory.context:,} tokens of context")
    rows.append(f"Free for it: {size(memory.free_bytes)} of {size(memory.total_bytes)}")
    return "\n".join(rows)


def consent(card: Card) -> str:
    """What the user agrees to with a download."""
    plans = card.plans
    fetch = sum(plan.bytes_to_fetch for plan in plans)
    here = sum(plan.bytes_total for plan in plans) - fetch
    lines = []
    for plan in plans:
        gated = ", gated: its owner gives access on its hub page" if plan.gated else ""
        lines.append(f"{plan.request.repo}: {len(plan.files)} files, {size(plan.bytes_total)}{gated}")
    kept = f", {size(here)} are here already" if here else ""
    free = plans[0].bytes_free - fetch
    after = f"{size(free)} stay free on the disk" if free >= 0 else f"{size(-free)} too little space on the disk"
    lines.append(f"To download: {size(fetch)}{kept}; {after}.")
    if card.memory is not None:
        lines.append(f"Memory: {card.memory.verdict}")
    if card.row.preparation is not None:
        lines.append(f"Then the draft's programs are prepared: {card.row.preparation.words}.")
    return "\n".join(lines)


def load_consent(card: Card) -> str:
    """What the user agrees to with a load: minutes and disk of the preparation, memory as a sum."""
    lines = []
    if card.row.preparation is not None:
        lines.append(f"The draft's programs: {card.row.preparation.words}.")
    lines.append(memory_lines(card))
    if not card.fits:
        lines.append(_SWAPS)
    return "\n".join(lines)


def removal(card: Card) -> str:
    """What the user agrees to with a removal."""
    names = " and ".join(each.repo for each in card.removals)
    return f"{names} will be deleted from this disk; {size(freed_bytes(card))} become free."


def freed_bytes(card: Card) -> int:
    """What a removal frees."""
    return sum(each.bytes_freed for each in card.removals)


def progress_line(progress: PairProgress) -> str:
    """How far a download is: never a rate while nothing arrives."""
    parts = [f"{size(progress.bytes_done)} of {size(progress.bytes_total)}"] if progress.bytes_total else []
    return SEPARATOR.join([*parts, *_now(progress)])


def _now(progress: PairProgress) -> Iterator[str]:
    match progress.state:
        case "downloading" if progress.bytes_per_s is not None and progress.left_s is not None:
            yield f"{size(progress.bytes_per_s)}/s"
            yield f"{clock(progress.left_s)} left"
        case "stalled":
            tries = f", retrying {progress.attempt}/{progress.attempts}" if progress.attempt > 1 else ""
            yield f"stalled{tries}"
        case "queued":
            yield "waiting for its turn"
        case "checking":
            yield "asking the hub"
        case "verifying":
            yield "checking what has arrived"
        case "cancelled":
            yield "stopping"
        case state:
            yield state


def short_progress(downloads: tuple[PairProgress, ...]) -> str:
    """All downloads in a few words, for the pair button; empty where there are none."""
    if not downloads:
        return ""
    moving = [each for each in downloads if each.state != "paused"]
    if not moving:
        return "download paused"
    total = sum(each.bytes_total for each in moving)
    percent = 100 * sum(each.bytes_done for each in moving) // total if total else 0
    stalled = all(each.state == "stalled" for each in moving)
    return f"download stalled at {percent} %" if stalled else f"downloading {percent} %"


def file_line(file: FileProgress) -> str:
    """One file with its tick."""
    if file.state == "done":
        return f"✓ {file.name}  {size(file.bytes_total)} verified"
    note = f"  {file.note}" if file.note else ""
    return f"– {file.name}  {size(file.bytes_done)} of {size(file.bytes_total)}, {file.state}{note}"
