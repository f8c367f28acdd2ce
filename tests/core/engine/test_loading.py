"""How far loading is: one share that never goes back, and times that are known only where there were earlier ones."""

from __future__ import annotations

import pytest

from core.engine.loading import Loading, earlier_times, keep_times
from core.kernel_messages import KernelProgress

PARTS = ("target", "draft", "programs", "plain", "costs")
EARLIER = {"target": 2.0, "draft": 1.0, "programs": 5.0, "plain": 1.0, "costs": 1.0}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MIRROR_SD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def known() -> Loading:
    keep_times("this pair", EARLIER)
    return Loading(PARTS, "this pair")


def kernels(done: int, total: int = 10) -> KernelProgress:
    return KernelProgress("hash", "", done, total, 1.0)


def making(done: int) -> KernelProgress:
    return KernelProgress("compile", "layer 3", done, 10, 1.0)


def test_parts_are_weighed_by_what_they_took_before():
    loading = known()
    shares = [loading.begin(part).share for part in PARTS]
    assert shares == pytest.approx([0.0, 0.2, 0.3, 0.8, 0.9])


def test_time_left_is_told_by_earlier_times_and_not_made_up():
    loading = known()
    loading.begin("target")
    assert loading.begin("programs").left_s == pytest.approx(7.0)
    assert loading.within(kernels(5)).left_s == pytest.approx(4.5)
    unknown = Loading(PARTS)
    assert unknown.begin("programs").left_s is None
    assert 0 < unknown.begin("plain").share < 1


def test_the_bar_never_goes_back_when_programs_of_another_width_follow():
    loading = known()
    loading.begin("programs")
    shares = [loading.within(kernels(done)).share for done in (2, 9, 1, 5, 10)]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(0.8)


def test_a_programs_stage_is_told_in_words():
    loading = known()
    loading.begin("programs")
    assert loading.within(making(1)).stage == "preparing the draft's programs (compiling layer 3)"


def test_what_parts_took_is_known_the_next_time():
    loading = Loading(PARTS)
    for part in PARTS:
        loading.begin(part)
    loading.end_part()
    assert loading.taken_s.keys() == set(PARTS)
    assert min(loading.taken_s.values()) >= 0
    keep_times("a pair", loading.taken_s)
    keep_times("another", EARLIER)
    assert earlier_times("a pair") == loading.taken_s
    assert earlier_times("another") == EARLIER
    assert earlier_times("unheard of") == {}


def test_only_the_newest_pairs_are_remembered():
    for number in range(60):
        keep_times(str(number), EARLIER)
    assert earlier_times("0") == {}
    assert earlier_times("59") == EARLIER


def test_a_miss_is_told_once_and_takes_its_own_time():
    loading = known()
    loading.begin("programs")
    assert loading.within(kernels(0)).left_s == pytest.approx(7.0)
    first, second = loading.within(making(1)), loading.within(making(2))
    assert "made now" in first.note
    assert not second.note
    assert first.left_s is None, "what finding them took says nothing of making them"
    assert first.kernels == making(1)
    loading.begin("plain")
    loading.begin("costs")
    loading.keep()
    assert earlier_times("this pair")["programs"] == EARLIER["programs"]
    assert earlier_times("this pair")["made"] >= 0


def test_the_check_is_a_part_whose_answers_count():
    loading = Loading((*PARTS, "check"))
    before = loading.begin("check")
    assert before.part == "check"
    assert before.parts == (*PARTS, "check")
    middle = loading.checked(6, 12)
    assert before.share < middle.share < 1
    assert "6 of 12 answers" in middle.stage


def test_a_note_changes_nothing_else():
    loading = known()
    loading.begin("programs")
    before = loading.within(kernels(5))
    after = loading.note("Kept.")
    assert (after.note, after.stage, after.share) == ("Kept.", before.stage, before.share)


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"{", b'{"a": {"target": "long"}}'])
def test_a_damaged_memory_is_forgotten(home, content):
    keep_times("a pair", EARLIER)
    (file,) = (home / "cache").iterdir()
    file.write_bytes(content)
    assert earlier_times("a pair") == {}
    keep_times("a pair", EARLIER)
    assert earlier_times("a pair") == EARLIER
