"""Replays held against real decoding: same steps, and a speed that is near the measured one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.bench.replay_check import check_replay
from core.bench.simulate_report import check_table, checked_rows
from core.bench.trace import record_trace
from core.engine.loader import load_pair_now
from core.errors import BadRequest


@pytest.fixture(scope="module")
def loaded(tiny_pair):
    pair = load_pair_now(tiny_pair)
    yield pair
    pair.close()


@pytest.fixture(scope="module")
def trace(loaded):
    return record_trace(loaded, ["the cat", "the dog", "the log", "the mat"], 40)


def test_every_mode_is_replayed_with_its_own_steps_and_costs(loaded, trace):
    checked = check_replay(loaded, trace, 4, 4)
    assert [each.mode for each in checked] == [mode for mode in loaded.modes if mode != "lookup"]
    for each in checked:
        if each.mode != "auto":  # which chooses by times
            assert each.measured_tokens_per_step == each.replayed_tokens_per_step
        assert each.measured_tokens_per_second > 0 < each.replayed_tokens_per_second
    assert len(check_table(checked).splitlines()) == 2 + len(checked)
    assert len(checked_rows(checked)) == 2 * len(checked)


def test_what_cannot_be_checked_is_refused(loaded, trace):
    with pytest.raises(BadRequest, match="two prompts"):
        check_replay(loaded, trace, 1, 4)
    with pytest.raises(BadRequest, match="not of the draft"):
        check_replay(loaded, replace(trace, draft_sha256="0"), 4, 4)
    other = tuple(replace(answer, tokens=(*answer.tokens[:-1], answer.tokens[-1] ^ 1)) for answer in trace.answers)
    with pytest.raises(BadRequest, match="another text"):
        check_replay(loaded, replace(trace, answers=other), 4, 4)
