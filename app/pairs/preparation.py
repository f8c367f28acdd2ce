"""What is known of a preparation under way, gathered from its events. No widgets."""

from __future__ import annotations

from app.check.words import MODE_HEADER, mode_cells
from app.language import tr
from app.pairs.mode_selector import Devices, mode_label
from app.stats.words import MISSING
from core.check_messages import Verdict
from core.check_report import verdict_sentence
from core.loading_words import PART_WORDS, STAGE_WORDS
from core.protocol import Loaded, LoadPart, Progress


class PreparationLog:
    """Everything that was told of one preparation."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        """The pair's."""
        self.share = 0.0
        self.words = tr("starting the engine")
        """The stage that is under way."""
        self.elapsed_s = 0.0
        """When the last event was sent."""
        self.left_s: float | None = None
        self.part: LoadPart | None = None
        self.parts: tuple[LoadPart, ...] = ()
        self.programs: dict[str, str] = {}
        """The stage that each program is in, in words, in the order in which they were begun."""
        self.notes: list[str] = []

    def take(self, progress: Progress) -> None:
        """Learn from an event."""
        self.share = progress.share or 0.0
        self.words = progress.stage
        self.elapsed_s, self.left_s = progress.elapsed_s, progress.left_s
        self.part, self.parts = progress.part, progress.parts
        kernels = progress.kernels
        if kernels is not None:
            if kernels.program not in self.programs:  # the one before is over, though nothing said so
                self.programs = dict.fromkeys(self.programs, STAGE_WORDS["done"])
            if kernels.program:
                self.programs[kernels.program] = STAGE_WORDS[kernels.stage]
        elif self.part != "programs":
            self.programs = dict.fromkeys(self.programs, STAGE_WORDS["done"])
        if progress.note and progress.note not in self.notes:
            self.notes.append(progress.note)

    def part_lines(self) -> list[str]:
        """The parts, each with a mark: over, under way, to come."""
        at = self.parts.index(self.part) if self.part in self.parts else 0
        marks = ["✓" if index < at else "▸" if index == at else "–" for index in range(len(self.parts))]
        return [f"{mark} {PART_WORDS[part]}" for mark, part in zip(marks, self.parts, strict=True)]

    def program_line(self) -> str:
        """The programs with their stages; empty before the first."""
        return "  ·  ".join(f"{name}: {stage}" for name, stage in self.programs.items())


def outcome_lines(loaded: Loaded, devices: Devices) -> list[str]:
    """What the user should know of a pair that is ready; empty where all is as it should be."""
    lines = []
    if reasons := dict.fromkeys(missing.reason for missing in loaded.missing):
        text = tr("The draft runs without its prepared programs: {reasons}")
        lines.append(text.format(reasons=" ".join(reasons)))
    if loaded.verdict is not None:
        lines += _check_lines(loaded.verdict, devices)
    return lines


def _check_lines(verdict: Verdict, devices: Devices) -> list[str]:
    """What the check's own window shows: the verdict, and its table, a line for each mode."""
    sentence = verdict_sentence(verdict, lambda mode: mode_label(mode, devices))
    text = tr("Checked: {verdict}") if verdict.lossless else tr("Checked: {verdict} Use another mode.")
    lines = [text.format(verdict=sentence)]
    for each in verdict.modes:
        label, *cells = mode_cells(each, verdict.modes[0].tokens_per_second, devices)
        told = zip(MODE_HEADER[1:], cells, strict=True)
        lines.append(f"{label}: " + ", ".join(f"{name.lower()} {cell}" for name, cell in told if cell != MISSING))
    return lines
