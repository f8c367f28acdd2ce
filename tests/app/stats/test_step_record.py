"""The record of both devices' work."""

from __future__ import annotations

import random

import pytest

from app.pairs.mode_selector import Devices
from app.stats import words
from app.stats.step_record import MOST_STEPS, AnswerRecord, Lane, Work
from core.protocol import BusySpan, Mode, Step
from helpers.steps import DRAFT_S, HEAD_S, VERIFY_S, answer_steps, step


def record_of(*steps: Step) -> AnswerRecord:
    record = AnswerRecord()
    for each in steps:
        record.add(each)
    return record


def works(lane: Lane) -> list[Work]:
    return [lane.span(index).work for index in range(len(lane))]


@pytest.mark.parametrize(
    ("mode", "target", "draft"),
    [
        ("plain", {Work.VERIFY}, set()),
        ("gpu", {Work.VERIFY, Work.PROPOSE}, {Work.DRAFT}),
        ("mirror", {Work.VERIFY, Work.PROPOSE}, {Work.HIT, Work.REDRAFT, Work.DISCARDED}),
    ],
)
def test_each_mode_has_its_kinds_of_work(mode: Mode, target: set[Work], draft: set[Work]) -> None:
    record = record_of(*answer_steps(mode, 60))
    assert (set(works(record.target)), set(works(record.draft))) == (target, draft)


def test_the_blocks_drafted_for_other_outcomes_are_discarded_work() -> None:
    miss = step(
        0.2, 3, 2, "mirror", branch="miss", branches=5,
        draft_busy=(BusySpan(1.0, 1.2), BusySpan(1.3, 1.4)), target_busy=(BusySpan(1.4, 1.5),),
    )  # fmt: skip
    hit = step(
        0.4, 5, 2, "mirror", branch="hit", branches=5,
        draft_busy=(BusySpan(1.45, 1.6),), target_busy=(BusySpan(1.6, 1.7),),
    )  # fmt: skip
    record = record_of(step(0.0, 1, 1, target_busy=(BusySpan(1.0, 1.3),)), miss, hit)
    assert works(record.draft) == [Work.DISCARDED, Work.REDRAFT, Work.HIT]
    assert (record.hits, record.misses, record.hit_rate) == (1, 1, 0.5)
    assert record.discarded_s == pytest.approx(0.2)
    assert record.beside_s == pytest.approx(0.2 + 0.05)
    assert record.overlap == pytest.approx(0.25 / 0.45)
    assert words.overlap_line(record) == "1 hit, 1 miss; 44 % of the draft's time was for nothing"


def test_the_overlap_is_busy_time_of_both_minus_the_time_in_which_one_was_busy() -> None:
    steps = list(answer_steps("mirror", 200))
    spans = sorted(
        (span.start_s, span.end_s) for each in steps for span in (*each.target_busy, *each.draft_busy)
    )  # fmt: skip
    one_busy_s, reached = 0.0, 0.0
    for start, end in spans:
        one_busy_s += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    both_s = sum(end - start for start, end in spans)
    draft_s = sum(span.end_s - span.start_s for each in steps for span in each.draft_busy)
    assert record_of(*steps).overlap == pytest.approx((both_s - one_busy_s) / draft_s)


def test_times_begin_with_the_first_pass_not_with_the_prompt() -> None:
    record = record_of(*answer_steps("gpu", 3))
    assert record.target.span(0).begin_s == 0.0
    assert (record.begin_s, record.steps[0].end_s) == (0.0, pytest.approx(VERIFY_S))
    assert record.steps[1].begin_s == record.steps[0].end_s


def test_busy_time_of_any_stretch_is_that_of_its_spans() -> None:
    record = record_of(*answer_steps("mirror", 100))
    dice = random.Random(3)
    for lane in (record.target, record.draft):
        spans = [lane.span(index) for index in range(len(lane))]
        for _ in range(200):
            begin, end = sorted(dice.uniform(-0.5, record.end_s + 0.5) for _ in range(2))
            found = [late - early for early, late in zip(lane.busy_until(begin), lane.busy_until(end), strict=True)]
            expected = [
                sum(max(0.0, min(s.end_s, end) - max(s.begin_s, begin)) for s in spans if s.work is work)
                for work in lane.works
            ]
            assert found == pytest.approx(expected, abs=1e-9)
            shown = [index for index, s in enumerate(spans) if s.end_s > begin and s.begin_s < end]
            assert list(lane.between(begin, end)) == shown


def test_a_long_answer_keeps_its_newest_steps_and_all_of_its_sums() -> None:
    steps = list(answer_steps("mirror", 3 * MOST_STEPS))
    record = record_of(*steps)
    assert len(record.steps) <= MOST_STEPS
    assert record.count == len(steps)
    assert record.hits + record.misses == len(steps) - 1
    assert record.steps[-1].number == len(steps)
    oldest = record.steps[0]
    assert record.target.span(0).step == oldest.number
    assert record.step_number(oldest.number) == oldest
    assert record.step_number(oldest.number - 1) is None
    assert len(record.target) <= 2 * MOST_STEPS
    begin, end = record.begin_s, record.end_s
    busy = [
        late - early for early, late in zip(record.target.busy_until(begin), record.target.busy_until(end), strict=True)
    ]
    assert busy == pytest.approx([len(record.steps) * VERIFY_S, len(record.steps) * HEAD_S], rel=1e-3)


def test_the_step_at_a_time() -> None:
    record = record_of(*answer_steps("gpu", 5))
    for each in record.steps:
        assert record.step_at((each.begin_s + each.end_s) / 2) == each
    assert record.step_at(-0.1) is None
    assert record.step_at(record.end_s + 0.1) is None
    assert AnswerRecord().step_at(0.0) is None


def test_a_step_in_words() -> None:
    record = record_of(*answer_steps("mirror", 1, seed=1))
    assert words.step_lines(record.steps[1], Devices()) == (
        f"Mirror, step 2, 0.04 to 0.08 s: {record.steps[1].accepted} of 15 accepted, {record.steps[1].tokens} tokens, "
        f"hit among 6 outcomes drafted for\ndraft {2000 * DRAFT_S:.0f} ms, verify 40 ms, other 1.3 ms"
    )
    assert "draft" not in words.step_lines(record_of(*answer_steps("plain", 1)).steps[0], Devices())
