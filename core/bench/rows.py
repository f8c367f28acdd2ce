"""The rows of a benchmark: how they are computed from runs, shown, and written as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median

import msgspec

from core import __version__, machine


class Row(msgspec.Struct, frozen=True):
    """One figure: the median over all runs."""

    name: str
    value: float
    unit: str
    spread: tuple[float, float]
    """The least and the greatest of the runs."""
    ratio_to: str = ""
    """What the value is compared with; empty where with nothing."""
    ratio: float = 0.0
    """The median over the runs of value / the other's value in the same run."""


class Report(msgspec.Struct, frozen=True):
    """A whole benchmark."""

    machine: dict[str, str]
    versions: dict[str, str]
    rows: tuple[Row, ...]


def row(name: str, unit: str, runs: Sequence[float], other: Sequence[float] | None = None, ratio_to: str = "") -> Row:
    """A row from the values of its runs, compared run by run with `other`, which was measured in turns with it."""
    spread = (min(runs), max(runs))
    if other is None:
        return Row(name, median(runs), unit, spread)
    ratio = median(mine / theirs for mine, theirs in zip(runs, other, strict=True))
    return Row(name, median(runs), unit, spread, ratio_to, ratio)


def single(name: str, value: float, unit: str) -> Row:
    """A row of one value, without a spread."""
    return Row(name, value, unit, (value, value))


def report(rows: Sequence[Row], extra_versions: dict[str, str]) -> Report:
    """The rows with the machine and the versions they were measured on."""
    versions = {"mirror-sd": __version__, "mlx": version("mlx"), "mlx-lm": version("mlx-lm"), **extra_versions}
    return Report(machine.describe(), versions, tuple(rows))


def markdown_table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| what | median | least to greatest | compared with | ratio |", "|---|---|---|---|---|"]
    for each in rows:
        least, greatest = each.spread
        ratio = f"{each.ratio:.2f}x" if each.ratio_to else ""
        lines.append(
            f"| {each.name} | {each.value:.4g} {each.unit} | {least:.4g} to {greatest:.4g} "
            f"| {each.ratio_to} | {ratio} |"
        )
    return "\n".join(lines)


def write_json(result: Report, path: Path) -> None:
    """Write the report, indented."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1))
