"""Counting accepted tokens: on the engine's own steps, and behind branches that came true."""

from __future__ import annotations

import numpy as np
import pytest

from core.bench.acceptance import Walk, acceptance_rows, branch_row, held_out_prompts, our_walks
from core.engine.loader import load_pair_now


@pytest.fixture(scope="module")
def loaded(tiny_pair):
    return load_pair_now(tiny_pair)


def test_the_held_out_prompts_are_a_hundred_different_ones():
    prompts = held_out_prompts()
    assert len(set(prompts)) == len(prompts) == 100
    assert all(prompt.strip() == prompt != "" for prompt in prompts)


def test_shares_and_tokens_per_step_are_those_of_whole_steps():
    walks = [Walk((1,), tuple(range(9)), (3, 1, 4)), Walk((1,), tuple(range(6)), (2, 3))]
    rows = {row.name: row for row in acceptance_rows("draft", walks, 4)}
    assert rows["draft: tokens per step"].value == pytest.approx((3 + 1 + 2) / 3)
    assert rows["draft: tokens per step"].spread == (2, 2)
    assert [rows[f"draft: at least {k} accepted"].value for k in (1, 2, 3)] == pytest.approx([2 / 3, 1 / 3, 0])


def test_a_walk_tells_every_token_of_the_answer(loaded):
    prompts = [(5, 8, 13, 21), (34, 55, 89)]
    walks = our_walks(loaded, prompts, width=8, max_tokens=20)
    for walk, prompt in zip(walks, prompts, strict=True):
        assert walk.prompt == prompt
        assert len(walk.tokens) == 20
        assert 1 + sum(walk.steps) == 20


def test_the_share_behind_branches_is_one_for_a_draft_that_is_always_right(loaded, monkeypatch):
    walk = our_walks(loaded, [(5, 8, 13, 21)], width=8, max_tokens=40)[0]
    monkeypatch.setattr("core.training.acceptance._accepted", lambda *arguments: arguments[-1])
    assert branch_row("draft", loaded, [walk]).value == 1


def test_the_share_behind_branches_is_measured_on_real_blocks(loaded):
    walks = our_walks(loaded, [(5, 8, 13, 21), (34, 55, 89)], width=8, max_tokens=40)
    share = branch_row("draft", loaded, walks).value
    assert 0.5 < share < 2
    assert np.isfinite(share)
