"""A pair's programs: prepared once, kept on the disk, and there also where the disk cannot keep them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ane
from core.engine.loader import load_pair_now
from core.engine.programs import Programs, load_programs, main_device
from core.engine.target import Target
from core.errors import Cancelled
from core.kernels_folder import kernels_dir
from core.pairs import Pair
from helpers.random_drafts import small_draft
from helpers.tiny import tiny_config, tiny_target

portable = pytest.mark.skipif(sys.platform == "darwin", reason="the processor's runtime is not used there")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    return small_draft(tmp_path / "draft")


@pytest.fixture(scope="module")
def target() -> Target:
    target = tiny_target()
    target.set_taps(tiny_config().target_layer_ids)
    return target


@pytest.fixture
def load(draft: Path, target: Target) -> Callable[[], Programs]:
    def load() -> Programs:
        programs = load_programs(draft, target)
        programs.close()
        return programs

    return load


def kept() -> list[tuple[int, float]]:
    """Widths, and when their programs were made."""
    kernels = ane.list_kernels(kernels_dir())
    return [(entry.width, entry.created_s) for entry in kernels if isinstance(entry, ane.Kernels)]


def block(programs: Programs, draft: Path) -> bytes:
    """What the programs make of a fixed block."""
    running = ane.Draft(draft, programs.drafter.programs)
    drawn = np.random.default_rng(3)
    running.ingest([drawn.standard_normal((5, 32)).astype(np.float32) for _ in running.info.target_layer_ids])
    hidden = np.zeros((20, 32), np.float32)
    running.run(drawn.standard_normal((20, 32)).astype(np.float32), range(5, 25), hidden)
    return hidden.tobytes()


@portable
def test_they_are_prepared_once_for_each_width_and_found_again(load: Callable[[], Programs], draft: Path) -> None:
    first = load()
    assert first.runs_on == ane.system_runtime() == "cpu"
    made = kept()
    assert sorted(width for width, _ in made) == [16, 32]
    again = load()
    assert kept() == made
    assert again.drafter.width == 32
    assert block(again, draft) == block(first, draft)


@portable
def test_damaged_ones_are_made_anew(
    load: Callable[[], Programs], draft: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = block(load(), draft)
    weights = next(kernels_dir().glob("*/layer1*/Data/com.apple.CoreML/weights/weight.bin"))
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert block(load(), draft) == expected
    assert "damaged" in caplog.text
    assert weights.read_bytes() == whole


@portable
@pytest.mark.parametrize("blocked", ["", "cache", "cache/kernels"])
def test_a_cache_that_cannot_be_written_keeps_no_pair_from_its_programs(
    load: Callable[[], Programs], draft: Path, home: Path, caplog: pytest.LogCaptureFixture, blocked: str
) -> None:
    expected = block(load(), draft)
    file = home.parent / "other" / blocked
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("no folder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRROR_SD_HOME", str(home.parent / "other"))
        programs = load()
        assert block(programs, draft) == expected
    assert programs.origin.startswith("Kept in memory alone: ")
    assert "kept in memory alone" in caplog.text


def test_a_stop_ends_the_preparation_and_leaves_nothing(draft: Path, target: Target) -> None:
    told = 0

    def tell(*_fields: object) -> None:
        nonlocal told
        told += 1
        if told > 4:
            raise Cancelled("Stopped.")

    with pytest.raises(Cancelled):
        load_programs(draft, target, tell)
    assert ane.list_kernels(kernels_dir()) == []


def test_where_they_come_from_is_told(load: Callable[[], Programs]) -> None:
    assert load().origin == "Prepared now: there were none for these weights on this system."
    assert load().origin == "Prepared earlier, and kept."
    damaged = next(kernels_dir().glob("*/*.mlpackage/Data/**/weight.bin"), None) or next(
        path for path in kernels_dir().rglob("*.bin")
    )
    damaged.write_bytes(b"short")
    assert load().origin.startswith("Prepared anew: ")


def test_core_ml_has_one_width_and_its_own_threads(
    load: Callable[[], Programs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ane, "system_runtime", lambda: "coreml")
    programs = load()
    assert (programs.runs_on, programs.drafter.width) == ("coreml", 64)
    assert [width for width, _ in kept()] == [64]
    programs.runtime.threads = 3
    programs.share_processor(True)
    assert programs.runtime.threads == 3


def test_where_they_fail_the_pair_loads_without_them(
    tiny_pair: Pair, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """On a system where they run by Core ML alone."""
    monkeypatch.setattr(ane, "system_runtime", lambda: "coreml")
    home.write_text("no folder")
    loaded = load_pair_now(tiny_pair)
    assert loaded.modes == ("plain", "lookup", "gpu", "auto")
    assert loaded.missing.keys() == {"ane", "mirror"}
    assert loaded.missing["ane"].startswith("The folder for prepared kernels cannot be made: ")


def shares(operations: int, neural_engine: float, gpu: float, cpu: float) -> SimpleNamespace:
    return SimpleNamespace(operations=operations, neural_engine=neural_engine, gpu=gpu, cpu=cpu)


@pytest.mark.parametrize(
    ("placements", "device"),
    [
        ([shares(100, 0.98, 0.0, 0.02), shares(10, 0.0, 0.0, 1.0)], "Neural Engine"),
        ([shares(100, 0.0, 1.0, 0.0)], "GPU"),
        ([shares(10, 1.0, 0.0, 0.0), shares(100, 0.0, 0.0, 1.0)], "processor"),
        ([shares(100, 0.4, 0.3, 0.3)], "Core ML"),
        ([shares(100, 0.0, 0.0, 0.0)], "Core ML"),
        ([], "Core ML"),
    ],
)
def test_the_device_is_where_most_operations_run(placements: list[SimpleNamespace], device: str) -> None:
    assert main_device(placements) == device


def test_our_own_runtime_runs_programs_on_the_processor(tiny_pair: Pair) -> None:
    loaded = load_pair_now(tiny_pair)
    assert loaded.programs is not None
    assert loaded.programs.device == "processor"
    loaded.close()
