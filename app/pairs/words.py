"""Pairs, plans and downloads in words."""

from __future__ import annotations

from collections.abc import Iterator

from app.language import tr
from app.pairs.cards import Card
from app.pairs.downloads import PairProgress
from core.hub.progress import FileProgress, State
from core.units import clock, size

SEPARATOR = "  ·  "
_SWAPS = tr("It can be loaded anyway: the system may become slow, or end it.")
_DOWNLOAD_STATES: dict[State, str] = {
    "queued": tr("queued"),
    "checking": tr("checking"),
    "downloading": tr("downloading"),
    "paused": tr("paused"),
    "stalled": tr("stalled"),
    "verifying": tr("verifying"),
    "done": tr("done"),
    "failed": tr("failed"),
    "cancelled": tr("cancelled"),
}


def advice(recommended: Card | None, first_try: Card | None) -> str:
    """Which pair to take."""
    lines = [tr("A pair is a model that answers, and a small draft that makes it faster.")]
    if recommended is not None:
        row, memory = recommended.row, recommended.memory
        text = tr("For this machine: {pair} {precision}. {good_at}")
        total = ""
        if memory is not None:
            text = tr("For this machine with {memory} of memory: {pair} {precision}. {good_at}")
            total = size(memory.total_bytes)
        lines.append(text.format(memory=total, pair=row.name, precision=row.precision, good_at=row.good_at))
    if first_try is not None:
        row = first_try.row
        if row.state == "ready":
            text = tr("For a first try: {pair} {precision}. {good_at}")
        else:
            text = tr("For a first try: {pair} {precision}, {size}. {good_at}")
        costs = size(row.download_bytes)
        lines.append(text.format(pair=row.name, precision=row.precision, size=costs, good_at=row.good_at))
    return "\n".join(lines)


def badge(card: Card) -> str:
    """The state of a pair in a word or two."""
    if card.loaded:
        return tr("loaded")
    if card.progress is not None:
        return "" if card.progress.state == "done" else _DOWNLOAD_STATES[card.progress.state]
    if not card.row.compatibility.runs:
        return tr("cannot be run")
    return {
        "ready": tr("ready"),
        "draft missing": tr("draft missing"),
        "target missing": tr("target missing"),
        "not downloaded": "",
    }[card.row.state]


def reasons(card: Card) -> str:
    """Why a pair cannot be run, and what is wrong with it on the disk; empty where nothing is."""
    lines = list(card.row.compatibility.reasons)
    if card.row.problem:
        lines.append(tr("On the disk, but not sound: {problem}").format(problem=card.row.problem))
    return "\n".join(lines)


def notes(card: Card) -> str:
    """What to know before a pair is used."""
    lines = list(card.row.compatibility.warnings) if card.row.compatibility.runs else []
    if card.row.compatibility.runs and card.memory is not None and not card.memory.fits:
        short = tr("Memory is short: {verdict}").format(verdict=card.memory.verdict)
        lines.append(f"{short} {_SWAPS}")
    return "\n".join(lines)


def facts(card: Card) -> str:
    """Size, memory and preparation in a few lines."""
    parts = []
    if card.row.download_bytes:
        parts.append(tr("{size} on disk").format(size=size(card.row.download_bytes)))
    if card.memory is not None and (card.memory.fits or not card.row.compatibility.runs):
        parts.append(card.memory.verdict.rstrip("."))
    lines = [SEPARATOR.join(parts)]
    if card.row.preparation is not None:
        text = tr("Preparing the draft's programs: {costs}")
        lines.append(text.format(costs=card.row.preparation.words))
    return "\n".join(line for line in lines if line)


def memory_lines(card: Card) -> str:
    """The sum of memory, a line each."""
    memory = card.memory
    if memory is None:
        return tr("The memory that it needs cannot be told from its config.")
    rows = [f"{row.what}: {size(row.bytes)} ({row.how})" for row in memory.rows]
    together = tr("Together {size} for {context:,} tokens of context")
    rows.append(together.format(size=size(memory.needed_bytes), context=memory.context))
    free = tr("Free for it: {free} of {total}")
    rows.append(free.format(free=size(memory.free_bytes), total=size(memory.total_bytes)))
    return "\n".join(rows)


def consent(card: Card) -> str:
    """What the user agrees to with a download."""
    plans = card.plans
    fetch = sum(plan.bytes_to_fetch for plan in plans)
    here = sum(plan.bytes_total for plan in plans) - fetch
    lines = []
    for plan in plans:
        open_to_all = tr("{model}: {files} files, {size}")
        gated = tr("{model}: {files} files, {size}, gated: its owner gives access on its hub page")
        text = gated if plan.gated else open_to_all
        lines.append(text.format(model=plan.request.repo, files=len(plan.files), size=size(plan.bytes_total)))
    free = plans[0].bytes_free - fetch
    after = tr("{size} stay free on the disk") if free >= 0 else tr("{size} too little space on the disk")
    text = tr("To download: {size}, {here} are here already; {after}.") if here else tr("To download: {size}; {after}.")
    lines.append(text.format(size=size(fetch), here=size(here), after=after.format(size=size(abs(free)))))
    if card.memory is not None:
        lines.append(tr("Memory: {verdict}").format(verdict=card.memory.verdict))
    if card.row.preparation is not None:
        text = tr("Then the draft's programs are prepared: {costs}.")
        lines.append(text.format(costs=card.row.preparation.words))
    return "\n".join(lines)


def load_consent(card: Card) -> str:
    """What the user agrees to with a load: minutes and disk of the preparation, memory as a sum."""
    lines = []
    if card.row.preparation is not None:
        lines.append(tr("The draft's programs: {costs}.").format(costs=card.row.preparation.words))
    lines.append(memory_lines(card))
    if not card.fits:
        lines.append(_SWAPS)
    return "\n".join(lines)


def removal(card: Card) -> str:
    """What the user agrees to with a removal."""
    names = tr(" and ").join(each.repo for each in card.removals)
    text = tr("{models} will be deleted from this disk; {size} become free.")
    return text.format(models=names, size=size(freed_bytes(card)))


def freed_bytes(card: Card) -> int:
    """What a removal frees."""
    return sum(each.bytes_freed for each in card.removals)


def progress_line(progress: PairProgress) -> str:
    """How far a download is: never a rate while nothing arrives."""
    parts = []
    if progress.bytes_total:
        text = tr("{done} of {total}")
        parts.append(text.format(done=size(progress.bytes_done), total=size(progress.bytes_total)))
    return SEPARATOR.join([*parts, *_now(progress)])


def _now(progress: PairProgress) -> Iterator[str]:
    match progress.state:
        case "downloading" if progress.bytes_per_s is not None and progress.left_s is not None:
            yield f"{size(progress.bytes_per_s)}/s"
            yield tr("{time} left").format(time=clock(progress.left_s))
        case "stalled":
            text = tr("stalled, retrying {attempt}/{attempts}") if progress.attempt > 1 else tr("stalled")
            yield text.format(attempt=progress.attempt, attempts=progress.attempts)
        case "queued":
            yield tr("waiting for its turn")
        case "checking":
            yield tr("asking the hub")
        case "verifying":
            yield tr("checking what has arrived")
        case "cancelled":
            yield tr("stopping")
        case state:
            yield _DOWNLOAD_STATES[state]


def short_progress(downloads: tuple[PairProgress, ...]) -> str:
    """All downloads in a few words, for the pair button; empty where there are none."""
    if not downloads:
        return ""
    moving = [each for each in downloads if each.state != "paused"]
    if not moving:
        return tr("download paused")
    total = sum(each.bytes_total for each in moving)
    percent = 100 * sum(each.bytes_done for each in moving) // total if total else 0
    stalled = all(each.state == "stalled" for each in moving)
    text = tr("download stalled at {percent} %") if stalled else tr("downloading {percent} %")
    return text.format(percent=percent)


def file_line(file: FileProgress) -> str:
    """One file with its tick."""
    if file.state == "done":
        return tr("✓ {file}  {size} verified").format(file=file.name, size=size(file.bytes_total))
    text = tr("– {file}  {done} of {total}, {state}")
    line = text.format(
        file=file.name,
        done=size(file.bytes_done),
        total=size(file.bytes_total),
        state=_DOWNLOAD_STATES[file.state],
    )
    return f"{line}  {file.note}" if file.note else line
