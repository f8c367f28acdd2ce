"""What a draft is recorded to say is what the sampler would say of the same logits."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from core.engine.anchors import RIGHT, UNTHOUGHT, _ranks, branch_keys, branch_masks, record
from core.engine.branches import ALTERNATIVES, Outcomes, possible_branches
from core.engine.loader import load_pair_now
from core.engine.sampling import Sampler
from core.errors import BadRequest
from core.protocol import GenerateOptions
from helpers.folders import write_tiny_pair
from helpers.random_drafts import SECOND

BLOCK = 8


def test_a_draft_that_chooses_by_its_own_choices_is_not_recorded(tmp_path):
    loaded = load_pair_now(write_tiny_pair(tmp_path, **SECOND))
    try:
        with pytest.raises(BadRequest, match="depends on its own choices"):
            record(loaded, [1, 2, 3], 8, [4])
    finally:
        loaded.close()


def test_ranks_and_certainties_are_those_of_the_sampler():
    logits = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
    truth = np.random.default_rng(1).integers(-1, 30, 40)
    truth[:5] = logits[:5].argmax(axis=1)
    sampler = Sampler(GenerateOptions(), 30)
    tokens, others, certainties = map(np.array, sampler.choices_in_turn(mx.array(logits), 0, ALTERNATIVES))
    ranks, mine = _ranks(logits.copy(), truth)
    assert mine == pytest.approx(certainties, rel=1e-5)
    said = [[first, *rest] for first, rest in zip(tokens.tolist(), others.tolist(), strict=True)]
    expected = [
        row.index(token) if token in row else UNTHOUGHT for row, token in zip(said, truth.tolist(), strict=True)
    ]
    assert ranks.tolist() == expected
    assert {RIGHT, UNTHOUGHT} < set(ranks.tolist())


@pytest.mark.parametrize("width", range(2, BLOCK + 1))
def test_branches_are_recorded_with_the_masks_that_the_engine_gives_them(width):
    proposals = min(width, BLOCK - 1)
    possible = possible_branches(
        [0] * proposals, [[1, 2, 3, 4]] * proposals, Outcomes(), [0.9] * proposals, min(width - 1, proposals), BLOCK
    )
    recorded = {known: masks for _, known, masks in branch_keys([width], BLOCK, 100)}
    for branch in possible:
        assert recorded[branch.accepted + 1] == branch.masks == branch_masks(width, branch.accepted + 1, BLOCK)


def test_no_branch_reaches_beyond_the_text():
    assert max(known for _, known, _ in branch_keys(range(2, BLOCK + 1), BLOCK, 5)) == 3
    assert branch_keys([4], BLOCK, 2) == []
