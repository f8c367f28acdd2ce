"""Costs are measured for every width and drafter, and kept for the same pair on the same machine."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from core.engine import calibrate
from core.engine.calibrate import costs_of, measure_costs
from core.engine.costs import Costs, read_costs, write_costs
from core.engine.programs import Programs
from core.engine.recurrence import Recorder
from core.pairs import Pair
from helpers.families import family_target
from helpers.tiny import BLOCK, tiny_target


@pytest.fixture
def programs(tiny):
    return Programs(tiny.drafter, tiny.runtime, "cpu", thread=tiny.thread, outcomes=tiny.outcomes)


@pytest.fixture
def drafters(tiny):
    return {"gpu": tiny.in_mlx, "ane": tiny.drafter}


@pytest.fixture
def pair(tmp_path, monkeypatch):
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path))
    target = tmp_path / "target"
    target.touch()
    return Pair("tiny", str(target), None)


def test_every_width_and_drafter_has_a_cost(tiny, programs, drafters):
    costs = measure_costs(tiny.target, drafters, programs, BLOCK)
    assert len(costs.verify_ms) == len(costs.verify_ms_per_position) == costs.most_rows == BLOCK
    assert list(costs.verify_ms) == sorted(costs.verify_ms)
    assert min(costs.verify_ms) > 0
    assert min(costs.verify_ms_per_position) >= 0
    assert costs.draft_ms.keys() == {"gpu", "ane"}
    assert min(costs.draft_ms.values()) > costs.head_ms > 0
    assert tuple(columns for columns, _ in costs.beside_ms) == tiny.drafter.widths
    assert min(added_ms for _, added_ms in costs.beside_ms) >= 0
    assert costs.modes == ("plain", "gpu", "ane", "mirror")


def test_without_programs_only_the_draft_in_mlx_has_a_cost(tiny):
    costs = measure_costs(tiny.target, {"gpu": tiny.in_mlx}, None, BLOCK)
    assert costs.modes == ("plain", "gpu")


def changed(folder: Path, times: float) -> Costs:
    """Let the only kept costs say that passes took so many times what was measured; returns them."""
    (path,) = (folder / "cache" / "costs").iterdir()
    costs = read_costs(path)
    assert costs is not None
    costs = msgspec.structs.replace(costs, verify_ms=tuple(times * each for each in costs.verify_ms))
    write_costs(path, costs)
    return costs


def test_costs_are_measured_once(tiny, programs, drafters, pair, tmp_path, monkeypatch):
    costs_of(pair, tiny.target, drafters, programs)
    kept = changed(tmp_path, 0.01)  # however busy this machine was
    monkeypatch.setattr(calibrate, "measure_costs", None)
    assert costs_of(pair, tiny.target, drafters, programs) == kept


def test_costs_of_a_machine_that_was_busy_are_measured_anew(tiny, programs, drafters, pair, tmp_path):
    costs_of(pair, tiny.target, drafters, programs)
    busy = changed(tmp_path, 100)
    costs = costs_of(pair, tiny.target, drafters, programs)
    assert costs.verify_ms[0] < busy.verify_ms[0]
    (path,) = (tmp_path / "cache" / "costs").iterdir()
    assert read_costs(path) == costs


def test_costs_are_measured_anew_for_a_changed_model_and_for_other_drafters(tiny, programs, drafters, pair, tmp_path):
    costs_of(pair, tiny.target, drafters, programs)
    (tmp_path / "target").write_bytes(b"another")
    costs_of(pair, tiny.target, drafters, programs)
    assert costs_of(pair, tiny.target, {"gpu": tiny.in_mlx}, None).modes == ("plain", "gpu")
    assert len(list((tmp_path / "cache" / "costs").iterdir())) == 3


def test_damaged_costs_are_measured_anew(tiny, programs, drafters, pair, tmp_path):
    first = costs_of(pair, tiny.target, drafters, programs)
    (kept,) = (tmp_path / "cache" / "costs").iterdir()
    kept.write_text('{"verify_ms": "soon"}')
    again = costs_of(pair, tiny.target, drafters, programs)
    assert again.modes == first.modes
    assert read_costs(kept) == again


def test_a_disk_that_takes_nothing_does_not_matter(tiny, programs, drafters, pair, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "costs").touch()  # a file where the folder should be
    assert costs_of(pair, tiny.target, drafters, programs).modes == ("plain", "gpu", "ane", "mirror")


def test_forgetting_rows_is_part_of_what_a_pass_of_a_recurrent_target_costs(monkeypatch):
    replayed = []
    replay = Recorder.replay
    monkeypatch.setattr(
        Recorder, "replay", lambda self, recording, rows: replayed.append(rows) or replay(self, recording, rows)
    )
    costs = measure_costs(family_target("qwen3_5"), {}, None, BLOCK)
    assert {BLOCK // 2, 1} <= {*replayed}
    assert (costs.most_rows, costs.draft_ms, costs.modes) == (BLOCK, {}, ("plain",))


def test_what_depth_costs_is_timed_at_depth(monkeypatch):
    lengths = []
    once = calibrate._pass

    def noting(target, rows, transaction):
        once(target, rows, transaction)
        assert transaction.length == transaction.caches[0].offset
        lengths.append(transaction.length)

    monkeypatch.setattr(calibrate, "_pass", noting)
    measure_costs(tiny_target(), {}, None, BLOCK)
    assert max(lengths[:-6]) < calibrate._DEPTH < min(lengths[-6:])
