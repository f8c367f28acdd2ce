"""Which outcomes are drafted for, and how verifications change what is expected."""

from __future__ import annotations

import pytest

from core.engine.branches import ALTERNATIVES, Branch, Budget, Outcomes, choose_branches, possible_branches

TOKENS = [10, 11, 12, 13]
OTHERS = [[20 + 10 * row + rank for rank in range(ALTERNATIVES)] for row in range(4)]


def possible(verified: int = 3, block: int = 16, certainty: float = 0.5) -> list[Branch]:
    return possible_branches(TOKENS, OTHERS, Outcomes(), [certainty] * 4, verified, block)


def test_every_outcome_that_the_draft_thought_of_is_possible() -> None:
    outcomes = {(branch.accepted, branch.token) for branch in possible()}
    corrections = {(accepted, token) for accepted in range(3) for token in OTHERS[accepted]}
    assert outcomes == {*corrections, (3, 13)}


def test_a_block_without_a_further_token_has_no_branch_behind_it() -> None:
    assert max(branch.accepted for branch in possible(verified=4)) == 3


def test_masks_stay_where_the_draft_was_trained() -> None:
    for block in range(3, 17):
        for branch in possible(block=block):
            assert 1 <= branch.masks <= 4
            assert branch.accepted + 1 + branch.masks <= block - 1


def test_columns_are_the_known_tokens_and_the_masks() -> None:
    assert [branch.columns for branch in possible() if branch.token in (20, 13)] == [1 + 1 + 4, 4 + 1 + 4]


@pytest.mark.parametrize("certainty", [0.1, 0.5, 0.9])
def test_probabilities_are_shares_of_one(certainty: float) -> None:
    branches = possible(certainty=certainty)
    assert all(0 < branch.probability < 1 for branch in branches)
    assert sum(branch.probability for branch in branches) < 1


def test_a_certain_draft_makes_the_whole_block_likelier() -> None:
    whole = [next(b.probability for b in possible(certainty=c) if b.accepted == 3) for c in (0.2, 0.5, 0.8)]
    assert whole == sorted(whole)
    assert whole[0] < whole[2] / 4


def test_what_fits_is_chosen_by_probability_a_column() -> None:
    likely, long, rare = Branch(0, 1, 4, 0.3), Branch(5, 2, 20, 0.35), Branch(0, 3, 4, 0.01)
    assert choose_branches([long, rare, likely], 40) == [likely, long]
    assert choose_branches([long, rare, likely], 30) == [likely]
    assert choose_branches([long, rare, likely], 5) == []


def test_as_many_columns_are_drafted_as_are_expected_to_save_the_most() -> None:
    likely, other = Branch(0, 1, 4, 0.5), Branch(1, 2, 14, 0.3)
    cheap, dear = Budget(((16, 2.0), (32, 4.0)), 10.0), Budget(((16, 2.0), (32, 6.0)), 10.0)
    assert cheap.choose([likely, other]) == [likely, other]
    assert dear.choose([likely, other]) == [likely]


def test_something_is_drafted_ahead_even_where_it_is_not_expected_to_save_time() -> None:
    likely = Branch(0, 1, 4, 0.5)
    assert Budget(((4, 0.0), (16, 99.0)), 10.0).choose([likely]) == [likely]


def test_verifications_are_learned_from() -> None:
    outcomes = Outcomes()
    for _ in range(300):
        outcomes.observe([0.5] * 4, verified=4, accepted=1, rank=2)
    first, second, third, _ = outcomes.probabilities([0.5] * 4)
    assert first > 0.9
    assert second < 0.05
    assert third == pytest.approx(0.5), "nobody saw what comes behind a wrong token"
    assert outcomes.alternatives[2] > 0.9
    assert max(outcomes.alternatives[:2]) < 0.05


def test_certainty_counts_against_what_it_usually_is() -> None:
    outcomes = Outcomes()
    for _ in range(300):
        outcomes.observe([0.9], verified=1, accepted=0, rank=None)
        outcomes.observe([0.9], verified=1, accepted=1, rank=None)
    usual, less = (outcomes.probabilities([certainty])[0] for certainty in (0.9, 0.45))
    assert usual == pytest.approx(0.5, abs=0.1)
    assert less == pytest.approx(usual / 2, abs=0.05)
