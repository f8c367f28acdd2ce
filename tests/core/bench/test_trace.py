"""Traces in files: what is written is read, damage is told, and the one that is kept is whole."""

from __future__ import annotations

import lzma
from dataclasses import replace

import pytest

from core.bench.prompts import PROMPTS
from core.bench.trace import KEPT_TRACE, read_trace, record_trace, write_trace
from core.engine.anchors import RIGHT, UNTHOUGHT, Guess, branch_keys
from core.engine.loader import load_pair_now
from core.errors import BadRequest, MissingFile, UnreadableModel
from core.pairs import Pair


@pytest.fixture(scope="module")
def recorded(tiny_pair):
    loaded = load_pair_now(tiny_pair)
    trace = record_trace(loaded, ["the cat", "the dog"], 24)
    loaded.close()
    return trace


def test_every_token_with_enough_text_behind_it_is_asked_for_every_branch(recorded):
    for answer in recorded.answers:
        assert len(answer.anchors) == 24 - recorded.block
        for index, anchor in enumerate(answer.anchors):
            keys = branch_keys(recorded.widths, recorded.block, len(answer.tokens) - index)
            assert [(width, known, len(anchor.ahead[width, known].ranks)) for width, known, _ in keys] == keys
            assert len(anchor.in_mlx) == len(anchor.fresh.ranks) == recorded.block - 1


def test_what_is_written_is_read_up_to_the_last_bits_of_certainties(recorded, tmp_path):
    write_trace(recorded, tmp_path / "trace.xz")
    read = read_trace(tmp_path / "trace.xz")
    assert replace(read, answers=()) == replace(recorded, answers=())
    for mine, theirs in zip(read.answers, recorded.answers, strict=True):
        assert (mine.tokens, mine.ended) == (theirs.tokens, theirs.ended)
        for here, there in zip(mine.anchors, theirs.anchors, strict=True):
            assert here.in_mlx == there.in_mlx
            assert here.ahead.keys() == there.ahead.keys()
            same(here.fresh, there.fresh)
            for key, guess in here.ahead.items():
                same(guess, there.ahead[key])


def same(one: Guess, other: Guess) -> None:
    assert one.ranks == other.ranks
    assert one.certainties == pytest.approx(other.certainties, abs=0.002)


def test_a_file_that_is_missing_or_damaged_is_one_clear_error(recorded, tmp_path):
    with pytest.raises(MissingFile, match=r"none\.xz"):
        read_trace(tmp_path / "none.xz")
    path = tmp_path / "trace.xz"
    write_trace(recorded, path)
    content = lzma.decompress(path.read_bytes())
    for damaged in (path.read_bytes()[:-20], b"", lzma.compress(content[:-9]), lzma.compress(b"\x80")):
        path.write_bytes(damaged)
        with pytest.raises(UnreadableModel, match="damaged"):
            read_trace(path)


def test_a_pair_without_programs_has_nothing_to_record(tiny_pair):
    with pytest.raises(BadRequest, match="nothing to record"):
        record_trace(load_pair_now(Pair("alone", tiny_pair.target, None)), ["the cat"], 8)


def test_the_kept_trace_is_of_real_prompts_and_small():
    trace = read_trace()
    assert KEPT_TRACE.stat().st_size < 300_000
    assert set(trace.prompts) <= set(PROMPTS)
    assert len(trace.prompts) == len(trace.answers) > 30
    ranks = [rank for answer in trace.answers for anchor in answer.anchors for rank in anchor.fresh.ranks]
    assert {RIGHT, UNTHOUGHT} < set(ranks)
