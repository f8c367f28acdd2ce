"""A pair's preparation as the worker tells it: parts, stages of programs, hits and misses, a check, a stop anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable

import mlx.core as mx
import pytest

import ane
from core.check_messages import Verdict
from core.engine import loader
from core.engine.loader import load_pair
from core.engine.service import Service
from core.errors import Cancelled
from core.pairs import Pair
from core.pairs.memory import PROGRAMS_CONTEXT
from core.protocol import Event, Load, Loaded, Progress, Unload

PARTS = ("target", "draft", "programs", "plain", "costs")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path / "home"))


@pytest.fixture
def service():
    service = Service("terminal")
    yield service
    list(service.answer(Unload(), lambda: False))


def prepared(
    service: Service, request: Load, cancelled: Callable[[], bool] = lambda: False
) -> tuple[list[Progress], Loaded]:
    events: list[Event] = list(service.answer(request, cancelled))
    told = [event for event in events if isinstance(event, Progress)]
    assert isinstance(events[-1], Loaded)
    assert len(told) == len(events) - 1
    return told, events[-1]


def parts_of(told: list[Progress]) -> list[str | None]:
    return [each.part for index, each in enumerate(told) if index == 0 or each.part != told[index - 1].part]


def notes(told: list[Progress]) -> list[str]:
    return [each.note for each in told if each.note]


def test_programs_are_made_once_with_each_stage_of_each_program_and_then_found(service, tiny_pair):
    first, loaded = prepared(service, Load(tiny_pair))
    list(service.answer(Unload(), lambda: False))
    second, again = prepared(service, Load(tiny_pair))
    list(service.answer(Unload(), lambda: False))
    third, _ = prepared(service, Load(tiny_pair))
    for told in (first, second, third):
        assert parts_of(told) == list(PARTS)
        assert {each.parts for each in told} == {PARTS}
        shares = [each.share for each in told]
        assert shares == sorted(shares)
    stages = {(each.kernels.program, each.kernels.stage) for each in first if each.kernels}
    assert {"build", "quantise"} <= {stage for _, stage in stages}
    assert len({program for program, _ in stages if program}) > 2
    assert notes(first) == ["The draft's programs are made now: none are kept for these weights on this system."]
    assert "Prepared now" in loaded.programs_origin
    assert loaded.programs_context == PROGRAMS_CONTEXT
    assert notes(second) == [again.programs_origin] == ["Prepared earlier, and kept."]
    assert not [each for each in second if each.kernels and each.kernels.stage == "build"]
    assert {each.left_s for each in first} == {None}
    assert {each.left_s for each in second if each.part == "programs"} == {None}, "finding them was not timed before"
    assert all(each.left_s is not None for each in third)


def test_the_bar_runs_once_over_the_programs_of_all_widths(service, tiny_pair):
    told, _ = prepared(service, Load(tiny_pair))
    kernels = [each.kernels for each in told if each.kernels]
    done = [each.done for each in kernels]
    assert done == sorted(done)
    assert len({each.total for each in kernels}) == 1
    assert done[-1] == kernels[-1].total


def test_a_check_comes_last_and_its_verdict_with_the_pair(service, tiny_pair):
    told, loaded = prepared(service, Load(tiny_pair, check=True))
    assert parts_of(told) == [*PARTS, "check"]
    assert isinstance(loaded.verdict, Verdict)
    assert loaded.verdict.lossless
    assert "12 of 12 answers" in told[-1].stage


def test_a_check_that_is_stopped_leaves_the_pair_loaded(service, tiny_pair):
    checking: list[Progress] = []
    told = []
    for event in service.answer(Load(tiny_pair, check=True), lambda: len(checking) > 2):
        if isinstance(event, Progress) and event.part == "check":
            checking.append(event)
        told.append(event)
    assert isinstance(told[-1], Loaded)
    assert told[-1].verdict is None
    assert "was stopped" in told[-2].note


def test_without_programs_the_draft_runs_in_mlx_and_the_reason_is_told(service, tiny_pair, monkeypatch):
    def refuse(*_: object, **_named: object) -> None:
        raise ane.AneError("The disk of the cache is gone.")

    monkeypatch.setattr(loader, "load_programs", refuse)
    told, loaded = prepared(service, Load(tiny_pair))
    assert notes(told) == ["The draft runs in MLX alone: The disk of the cache is gone."]
    assert "gpu" in loaded.modes
    assert "ane" not in loaded.modes
    assert {missing.reason for missing in loaded.missing} == {"The disk of the cache is gone."}


def test_a_stop_at_any_point_ends_it_and_leaves_no_thread(tiny_pair: Pair):
    before = set(threading.enumerate())
    asked = stops = 0
    while True:
        left = asked = asked + (1 if asked < 12 else 9)

        def cancelled() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        try:
            list(load_pair(tiny_pair, cancelled))
        except Cancelled:
            stops += 1
        else:
            break
        for thread in set(threading.enumerate()) - before:
            thread.join(5)
            assert not thread.is_alive()
    assert stops > 12


def test_an_unloaded_pair_gives_its_memory_back(service: Service, tiny_pair: Pair) -> None:
    held = []
    for _ in range(3):
        list(service.answer(Load(tiny_pair), lambda: False))
        loaded_bytes = mx.get_active_memory()
        list(service.answer(Unload(), lambda: False))
        held.append(mx.get_active_memory())
        assert held[-1] < loaded_bytes
        assert mx.get_cache_memory() == 0
    assert held[-1] - held[0] < loaded_bytes // 100
