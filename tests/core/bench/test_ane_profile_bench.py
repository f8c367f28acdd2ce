"""The profile at depths of context: prompts of exactly that length, honest figures, refusals in words."""

from __future__ import annotations

import pytest

from core.bench.ane_profile import DepthMode, prepare, profile, prompt_of
from core.bench.ane_profile_report import preparation_line, profile_rows, profile_table, same_text_line
from core.engine.decode import DecodeStep
from core.engine.loader import load_pair_now
from core.errors import BadRequest
from core.protocol import Mode
from helpers.folders import write_tiny_pair


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    pair = load_pair_now(write_tiny_pair(tmp_path_factory.mktemp("pair"), context_length=1024))
    yield pair
    pair.close()


def step(mode: Mode, start_s: float, tokens: int, branch=None, proposals: int = 3) -> DecodeStep:
    """A draft of 10 ms, in `mirror` from the step's beginning on, and a verification of 20 ms behind 5 ms."""
    drafts = {"plain": (), "mirror": ((start_s, start_s + 0.010),)}.get(mode, ((start_s, start_s + 0.005),))
    return DecodeStep(
        tokens=tuple(range(tokens)),
        proposals=() if mode == "plain" else tuple(range(proposals)),
        accepted=tokens - 1,
        mode=mode,
        draft_busy=drafts,
        target_busy=((start_s + 0.005, start_s + 0.025),),
        branch=branch,
        branches=0,
        rollback_ms=0.0,
        host_ms=0.0,
        context_used=0,
        finish=None,
    )


def measured(mode: Mode, *tokens: int, branches=()) -> DepthMode:
    result = DepthMode(64, mode)
    given = [*branches, *[None] * len(tokens)]
    steps = [step("plain", 0.0, 1)]
    steps += [step(mode, 0.025 * (index + 1), count, given[index]) for index, count in enumerate(tokens)]
    result.add(steps)
    return result


@pytest.mark.parametrize("depth", [60, 61, 400])
def test_a_prompt_has_exactly_the_tokens_that_were_asked_for(loaded, depth):
    prompt = prompt_of(loaded, depth, 16)
    assert len(prompt) == depth
    text = loaded.tokenizer.decode(prompt)
    assert text.count("Summarise the text above.") == 1


def test_depths_that_do_not_fit_are_refused_before_anything_is_measured(loaded):
    with pytest.raises(BadRequest, match=r"1,009 tokens and an answer of 16.*1,024"):
        next(profile(loaded, [64, 1009], ["plain"], 4, 1, 16))
    with pytest.raises(BadRequest, match="too little"):
        prompt_of(loaded, 3, 16)
    assert len(prompt_of(loaded, 1008, 16)) == 1008


def test_speed_acceptance_overlap_and_hits_are_those_of_the_steps():
    plain, mirror = measured("plain", 1, 1), measured("mirror", 4, 1, 2, branches=("hit", "miss", "hit"))
    assert plain.tokens_per_second == pytest.approx([40.0])
    assert mirror.tokens_per_second == pytest.approx([7 / 0.075])
    assert (mirror.tokens_per_step, mirror.accepted_per_step) == pytest.approx((7 / 3, 4 / 3))
    assert (mirror.draft_ms, mirror.verify_ms) == pytest.approx((10.0, 20.0))
    assert mirror.overlap == pytest.approx(0.5)
    assert mirror.hit_rate == pytest.approx(2 / 3)
    assert (plain.overlap, plain.hit_rate) == (None, None)
    assert measured("ane", 2, 2).overlap == pytest.approx(0.0)


def test_every_mode_is_measured_at_every_depth_with_the_same_text(loaded):
    preparation = prepare(loaded, "fp16")
    modes: list[Mode] = ["plain", "gpu", "ane", "mirror"]
    told: list[str] = []
    results = list(profile(loaded, [300, 64], modes, 4, 2, 10, told.append))
    assert [(each.depth, each.mode) for each in results] == [(depth, mode) for depth in (64, 300) for mode in modes]
    assert all(len(each.tokens_per_second) == 2 and min(each.tokens_per_second) > 0 for each in results)
    assert all(each.peak_rss_bytes > 50e6 and each.peak_mlx_bytes is None for each in results)
    assert same_text_line(results) == "Same text in all modes and runs: at 2 of 2 depths."
    table = profile_table(results).splitlines()
    assert len(table) == 2 + len(results)
    assert {line.count("|") for line in table} == {14}
    names = {row.name for row in profile_rows(results, preparation)}
    assert {"mirror after 300 tokens: hits", "gpu after 64 tokens: accepted per step"} <= names
    assert "plain after 64 tokens: hits" not in names


def test_programs_are_prepared_once_in_the_precision_that_was_asked_for(loaded):
    first, second = prepare(loaded, "fp16"), prepare(loaded, "fp16")
    assert first.first_s == second.first_s > 0
    assert second.kept_s > 0
    assert "fp16" in preparation_line(second)


def test_other_texts_are_told():
    one, other = measured("plain", 1, 1), measured("gpu", 1, 2)
    assert same_text_line([one, other]).endswith("at 0 of 1 depths.")


def test_a_pair_without_a_draft_is_refused(tiny_pair):
    from core.pairs import Pair

    with pytest.raises(BadRequest, match="no draft"):
        prepare(load_pair_now(Pair("alone", tiny_pair.target, None)), "w8a16")
