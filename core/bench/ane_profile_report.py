"""The profile of a pair as a table and as the rows of a file."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from core.bench.ane_profile import DepthMode, Preparation
from core.bench.rows import Row, row, single


def profile_table(results: Sequence[DepthMode]) -> str:
    """One line a depth and mode."""
    lines = [
        "| context (tokens) | mode | tok/s, median | least to greatest | against plain | tokens a step "
        "| accepted a step | draft (ms a step) | verify (ms a step) | overlap (of the draft's time) "
        "| hits (of guessed steps) | peak memory of the process so far (GB) | peak memory of MLX (GB) |",
        "|---" * 13 + "|",
    ]
    for each in results:
        plain = _plain(each, results)
        speeds = each.tokens_per_second
        ratio = "" if plain is None else f"{median(_ratios(each, plain)):.2f}x"
        drafted = each.mode != "plain"
        mlx = "" if each.peak_mlx_bytes is None else f"{each.peak_mlx_bytes / 1e9:.2f}"
        cells = [
            str(each.depth),
            f"`{each.mode}`",
            f"{median(speeds):.2f}",
            f"{min(speeds):.2f} to {max(speeds):.2f}",
            ratio,
            f"{each.tokens_per_step:.2f}",
            f"{each.accepted_per_step:.2f}" if drafted else "",
            f"{each.draft_ms:.1f}" if drafted else "",
            f"{each.verify_ms:.1f}",
            "" if each.overlap is None else f"{each.overlap:.2f}",
            "" if each.hit_rate is None else f"{each.hit_rate:.2f}",
            f"{each.peak_rss_bytes / 1e9:.2f}",
            mlx,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def preparation_line(preparation: Preparation) -> str:
    """How long the programs took."""
    return (
        f"The draft's programs ({preparation.precision}): prepared in {preparation.first_s:.1f} s the first time; "
        f"found on the disk and loaded in {preparation.kept_s:.1f} s since."
    )


def same_text_line(results: Sequence[DepthMode]) -> str:
    """Whether all modes and runs gave the same text at each depth."""
    depths = sorted({each.depth for each in results})
    same = [depth for depth in depths if len(_texts(results, depth)) == 1]
    return f"Same text in all modes and runs: at {len(same)} of {len(depths)} depths."


def profile_rows(results: Sequence[DepthMode], preparation: Preparation) -> list[Row]:
    """The same figures, for a file."""
    rows = [
        single(f"programs, {preparation.precision}: prepared the first time", preparation.first_s, "s"),
        single(f"programs, {preparation.precision}: found on the disk and loaded", preparation.kept_s, "s"),
    ]
    for each in results:
        rows += _rows(each, _plain(each, results))
    return rows


def _rows(each: DepthMode, plain: DepthMode | None) -> list[Row]:
    name = f"{each.mode} after {each.depth} tokens"
    rows = [
        row(f"{name}: speed", "tok/s", each.tokens_per_second)
        if plain is None
        else row(f"{name}: speed", "tok/s", each.tokens_per_second, plain.tokens_per_second, "plain at this depth"),
        single(f"{name}: tokens per step", each.tokens_per_step, "tokens"),
        single(f"{name}: accepted per step", each.accepted_per_step, "proposals"),
        single(f"{name}: draft", each.draft_ms, "ms a step"),
        single(f"{name}: verify", each.verify_ms, "ms a step"),
        single(f"{name}: peak memory of the process so far", each.peak_rss_bytes / 1e9, "GB"),
    ]
    if each.overlap is not None:
        rows.append(single(f"{name}: overlap", each.overlap, "of the draft's time"))
    if each.hit_rate is not None:
        rows.append(single(f"{name}: hits", each.hit_rate, "of guessed steps"))
    if each.peak_mlx_bytes is not None:
        rows.append(single(f"{name}: peak memory of MLX", each.peak_mlx_bytes / 1e9, "GB"))
    return rows


def _plain(each: DepthMode, results: Sequence[DepthMode]) -> DepthMode | None:
    """The plain mode at the same depth, where it was measured and is another."""
    found = (other for other in results if other.depth == each.depth and other.mode == "plain")
    plain = next(found, None)
    return None if plain is each else plain


def _ratios(each: DepthMode, plain: DepthMode) -> list[float]:
    return [mine / theirs for mine, theirs in zip(each.tokens_per_second, plain.tokens_per_second, strict=True)]


def _texts(results: Sequence[DepthMode], depth: int) -> set[tuple[int, ...]]:
    return {text for each in results if each.depth == depth for text in each.texts}
