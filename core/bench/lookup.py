"""What prompt lookup gains where answers repeat their prompts: tokens a second of plain, lookup and auto, in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from core.bench.lookup_tasks import TASKS, Kind, Task
from core.bench.rows import Row, row, single
from core.engine.decode import Limits
from core.engine.loader import LoadedPair
from core.engine.measure import decode_anew
from core.engine.prompt import render_prompt
from core.engine.step_figures import tokens_of
from core.protocol import ChatMessage, Mode

MODES: tuple[Mode, ...] = ("plain", "lookup", "auto")


@dataclass
class _Figures:
    """One mode over the tasks of a kind, one entry a run."""

    tokens_per_second: list[float] = field(default_factory=list)
    tokens_per_step: list[float] = field(default_factory=list)
    texts: list[tuple[int, ...]] = field(default_factory=list)
    """Of the last run."""


def lookup_rows(
    loaded: LoadedPair, runs: int, max_tokens: int, progress: Callable[[str], None] = lambda _what: None
) -> list[Row]:
    """Greedy answers that end where the model ends them, the modes taking turns with each task."""
    rows = []
    kinds: tuple[Kind, ...] = ("summary", "edit")
    for kind in kinds:
        tasks = [task for task in TASKS if task.kind == kind]
        figures = {mode: _Figures() for mode in MODES}
        for run in range(runs):
            progress(f"{kind}, run {run + 1} of {runs}")
            _add_run(loaded, tasks, max_tokens, figures, run)
        rows += _rows(kind, figures)
    return rows


def prompt_of(loaded: LoadedPair, task: Task) -> list[int]:
    """As a conversation where the model can hold one, else as the beginning of a text."""
    if loaded.tokenizer.chat_template is not None:
        return list(render_prompt(loaded.tokenizer, [ChatMessage("user", task.message)]).ids)
    return [*loaded.tokenizer.first_ids, *loaded.tokenizer.encode(task.beginning, parse_special=False)]


def _add_run(
    loaded: LoadedPair, tasks: Sequence[Task], max_tokens: int, figures: dict[Mode, _Figures], run: int
) -> None:
    limits = Limits(max_tokens, loaded.tokenizer.eos_ids, loaded.most_rows)
    tokens, steps, seconds = (dict.fromkeys(MODES, 0.0) for _ in range(3))
    for each in figures.values():
        each.texts = []
    for index, task in enumerate(tasks):
        first = (run + index) % len(MODES)
        for mode in MODES[first:] + MODES[:first]:
            taken = decode_anew(loaded, prompt_of(loaded, task), mode, limits)
            figures[mode].texts.append(tokens_of(taken))
            tokens[mode] += len(tokens_of(taken)) - 1
            steps[mode] += len(taken) - 1
            seconds[mode] += taken[-1].done_s - taken[0].done_s
    for mode, each in figures.items():
        each.tokens_per_second.append(tokens[mode] / seconds[mode])
        each.tokens_per_step.append(tokens[mode] / steps[mode])


def _rows(kind: Kind, figures: dict[Mode, _Figures]) -> list[Row]:
    plain = figures["plain"]
    rows = [row(f"{kind}, plain: speed", "tok/s", plain.tokens_per_second)]
    for mode in MODES[1:]:
        each = figures[mode]
        same = sum(mine == theirs for mine, theirs in zip(each.texts, plain.texts, strict=True))
        rows += [
            row(f"{kind}, {mode}: speed", "tok/s", each.tokens_per_second, plain.tokens_per_second, "plain"),
            row(f"{kind}, {mode}: tokens per step", "tokens", each.tokens_per_step),
            single(f"{kind}, {mode}: same text as plain", same, f"of {len(plain.texts)} tasks"),
        ]
    return rows
