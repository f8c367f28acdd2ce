"""The second generation of drafts in MLX equals a plain numpy reference; known mistakes do not."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.sampling import Sampler
from core.engine.selector import Candidates
from core.protocol import GenerateOptions
from helpers.random_drafts import SECOND
from helpers.reference import MISTAKES, relative_error
from helpers.reference_second import CONV_MISTAKES, SELECTOR_MISTAKES, SecondReferenceDraft
from helpers.tiny import VOCABULARY, tiny_drafter, tiny_target
from helpers.twins import FAR, TOLERANCE, Twins, target_matrices, too_far

FULL, SLIDING = "full_attention", "sliding_attention"
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
PUBLISHED = {"layer_types": (SLIDING, SLIDING), "sliding_window": 20, "is_causal": False}
"""Layers as the published checkpoint has them."""
KINDS: dict[str, dict[str, object]] = {
    "as published": PUBLISHED,
    "full": {},
    "sliding, causal": {"layer_types": (SLIDING, FULL), "sliding_window": 20},
    "one tap": {"conv_kernel_size": 1},
    "three taps": {"conv_kernel_size": 3},
    "as many taps as rows": {"conv_kernel_size": 8},
    "groups of one": {"conv_group_size": 1},
    "one group": {"conv_group_size": 32},
    "one candidate": {"selector_top_k": 1},
    "all tokens are candidates": {"selector_top_k": VOCABULARY},
    "rank one": {"selector_rank": 1},
    "biases": {"attention_bias": True},
    "YaRN": {"rope_scaling": YARN},
    "soft cap and scales": {
        "final_logit_softcapping": 30.0,
        "input_embedding_scale": 2.5,
        "output_multiplier": 0.3,
    },
    "six layers": {"num_hidden_layers": 6, "layer_types": (SLIDING,) * 6, "sliding_window": 9, "is_causal": False},
}


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_target()


def second_twins(target: Any, kind: type[SecondReferenceDraft] = SecondReferenceDraft, **changes: object) -> Twins:
    """Bases near those of a convolution that changes little, as trained ones are, and sharp edges."""
    drafter = tiny_drafter(target, **{**SECOND, **changes})
    for layer in drafter.draft.layers:
        for conv in (layer.attention_conv, layer.mlp_conv):
            conv.base_kernel = conv.base_kernel * 0.3 + 1.0
            conv.kernel_projection.weight = conv.kernel_projection.weight * 0.3
    mx.eval(drafter.draft.parameters())
    return Twins(drafter, kind)


@pytest.mark.parametrize("chunks", [[], [1], [90], [200, 1, 3, 60]], ids=str)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_delta_hidden_row_and_candidate_equals_the_reference(target: Any, kind: Any, chunks: list[int]) -> None:
    twins = second_twins(target, **kind)
    twins.ingest(chunks)
    assert too_far(twins.errors()) == {}
    assert_selects_the_same(twins)


def assert_selects_the_same(twins: Twins) -> None:
    """Candidates, their scores behind the reference's path, and the path itself."""
    assert isinstance(twins.reference, SecondReferenceDraft)
    embedding, head = target_matrices(twins.drafter._target)
    for anchor in (7, 60):
        said, block = twins.say(anchor), twins._block(embedding, anchor)
        assert isinstance(said, Candidates)
        hidden, logits = twins.reference.hidden(block), twins.reference.logits(block, head)
        assert [sorted(row) for row in said.tokens.tolist()] == twins.reference.candidates(logits)
        path = twins.reference.select(hidden, logits, anchor)
        for row, before in enumerate([anchor, *path[:-1]]):
            expected = twins.reference.scores(hidden, logits, row, before)
            got = said.scores(row, mx.array([before]))[0].tolist()
            assert relative_error(got, np.array([expected[token] for token in said.tokens[row].tolist()])) <= TOLERANCE
        greedy = Sampler(GenerateOptions(), VOCABULARY)
        assert greedy.choose_in_turn(said, 0).tolist() == path
        assert greedy.choices_in_turn(said, 0, 4)[0].tolist() == path


@pytest.mark.parametrize("block_size", range(2, 17))
def test_every_block_size_equals_the_reference(target: Any, block_size: int) -> None:
    twins = second_twins(target, block_size=block_size, **PUBLISHED)
    twins.ingest([30, 2])
    assert too_far(twins.errors()) == {}
    assert_selects_the_same(twins)


@st.composite
def drafts(draw: st.DrawFn) -> dict[str, object]:
    layers, block = draw(st.integers(1, 3)), draw(st.integers(2, 16))
    return {
        "num_hidden_layers": layers,
        "block_size": block,
        "layer_types": tuple(draw(st.sampled_from([FULL, SLIDING])) for _ in range(layers)),
        "sliding_window": draw(st.integers(block, 200)),
        "is_causal": draw(st.sampled_from([None, True, False])),
        "conv_kernel_size": draw(st.integers(1, min(block, 4))),
        "conv_group_size": draw(st.sampled_from([1, 2, 8, 16])),
        "selector_rank": draw(st.integers(1, 40)),
        "selector_top_k": draw(st.integers(1, 32)),
        "rope_theta": draw(st.sampled_from([1e4, 1e7])),
        "attention_bias": draw(st.booleans()),
    }


@given(changes=drafts())
@settings(max_examples=20, deadline=None, derandomize=True)
def test_drafts_of_any_shape_equal_the_reference(target: Any, changes: dict[str, object]) -> None:
    twins = second_twins(target, **changes)
    twins.ingest([40, 3])
    assert too_far(twins.errors()) == {}


# ------------------------------------------------------------- known mistakes


@pytest.mark.parametrize("mistake", CONV_MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistaken_convolution_is_far_from_the_draft(target: Any, mistake: type[SecondReferenceDraft]) -> None:
    twins = second_twins(target, mistake)
    twins.ingest([20, 11])
    errors = twins.errors()
    assert errors["hidden"] > FAR
    assert max(errors[name] for name in errors if name.startswith("attention")) > FAR


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_of_the_first_generation_is_far_too(target: Any, mistake: type) -> None:
    both = type(f"Second{mistake.__name__}", (mistake, SecondReferenceDraft), {})
    twins = second_twins(target, both)
    twins.ingest([20, 11])
    assert max(twins.errors().values()) > FAR


@pytest.mark.parametrize("mistake", SELECTOR_MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistaken_selector_gives_other_scores(target: Any, mistake: type[SecondReferenceDraft]) -> None:
    """Where a mistake leaves a row as it is (the first row's predecessor is the anchor either way), others show it."""
    twins = second_twins(target, mistake)
    twins.ingest([20, 11])
    embedding, head = target_matrices(target)
    said, block = twins.say(7), twins._block(embedding, 7)
    assert isinstance(said, Candidates)
    assert isinstance(twins.reference, SecondReferenceDraft)
    hidden, logits = twins.reference.hidden(block), twins.reference.logits(block, head)
    path, errors = Sampler(GenerateOptions(), VOCABULARY).choose_in_turn(said, 0).tolist(), []
    for row, before in enumerate([7, *path[:-1]]):
        expected = twins.reference.scores(hidden, logits, row, twins.reference.before(7, before))
        got = said.scores(row, mx.array([before]))[0].tolist()
        errors.append(relative_error(got, np.array([expected[token] for token in said.tokens[row].tolist()])))
    assert max(errors) > FAR
    assert twins.reference.select(hidden, logits, 7) != path
