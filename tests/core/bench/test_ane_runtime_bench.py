"""The benchmark of a draft's programs, on a small draft: every case is there, and both sides compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core.bench.ane_runtime import Bounds, runtime_rows
from core.engine.draft_passes import layer_weights, read_draft
from helpers.random_drafts import small_draft


def test_every_case_has_its_time_its_speed_and_its_shares(tmp_path: Path) -> None:
    folder = small_draft(tmp_path / "draft")
    told: list[str] = []
    rows = runtime_rows(folder, threads=1, runs=2, columns=(16, 32), contexts=(64, 512), progress=told.append)
    cases = [row for row in rows if row.unit == "ms"]
    assert len(rows) == 3 * len(cases) == 3 * 8
    assert len({row.name for row in cases}) == 8
    assert len(told) == 2 * 8
    assert all(row.value > 0 and row.spread[0] <= row.value <= row.spread[1] for row in rows)
    assert all(row.ratio > 0 and "MLX" in row.ratio_to for row in cases)


def test_weights_are_those_that_columns_meet(tmp_path: Path) -> None:
    draft = read_draft(small_draft(tmp_path / "draft"))
    # q, o: 32 x 32; k, v: 16 x 32; gate, up, down: 64 x 32
    assert layer_weights(draft) == 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 64 * 32)


def test_bounds_are_measured_in_every_run() -> None:
    bounds = Bounds()
    for _ in range(2):
        bounds.measure(1_000_000)
    assert len(bounds.bytes_per_ms) == len(bounds.multiply_adds_per_ms) == 2
    assert min(bounds.bytes_per_ms + bounds.multiply_adds_per_ms) > 0
    assert np.isfinite(bounds.bytes_per_ms).all()


def test_a_folder_that_is_no_draft_is_one_clear_error(tmp_path: Path) -> None:
    from core.errors import MissingFile

    with pytest.raises(MissingFile, match=r"config\.json"):
        read_draft(tmp_path)
