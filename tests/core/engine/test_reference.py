"""The MLX draft, and the target's layers read through taps, equal a plain numpy reference; known mistakes do not."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.session import Session
from core.engine.target import Target
from helpers.families import family_target
from helpers.reference import MISTAKES, NormOverAllChannels, ReferenceLlamaLayer, relative_error
from helpers.tiny import LAYERS, MASK, VOCABULARY, tiny_drafter, tiny_target
from helpers.twins import FAR, TOLERANCE, Twins, float64, target_matrices, too_far, weights_of

FULL, SLIDING = "full_attention", "sliding_attention"
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
KINDS = {
    "full": {},
    "full, causal": {"is_causal": True},
    "full, not causal by name": {"is_causal": False},
    "sliding": {"layer_types": (SLIDING, FULL), "sliding_window": 20},
    "sliding, causal everywhere": {"layer_types": (SLIDING, FULL), "sliding_window": 20, "is_causal": True},
    "sliding, never causal": {"layer_types": (SLIDING, SLIDING), "sliding_window": 20, "is_causal": False},
    "sliding, window as long as the block": {"layer_types": (FULL, SLIDING), "sliding_window": 8},
    "sliding, window beyond the context": {"layer_types": (SLIDING, FULL), "sliding_window": 1000},
    "YaRN": {"rope_scaling": YARN},
    "YaRN, sliding": {"rope_scaling": YARN, "layer_types": (SLIDING, FULL), "sliding_window": 20},
    "soft cap and scales": {
        "final_logit_softcapping": 30.0,
        "input_embedding_scale": 2.5,
        "output_multiplier": 0.3,
    },
    "one key-value head": {"num_key_value_heads": 1, "head_dim": 16},
    "no shared heads": {"num_key_value_heads": 4},
    "biases": {"attention_bias": True},
    "biases, YaRN, eight layers": {
        "attention_bias": True,
        "rope_scaling": YARN,
        "num_hidden_layers": 8,
        "layer_types": (FULL,) * 8,
    },
}
CHUNKS = {
    "none": [],
    "one row": [1],
    "all at once": [90],
    "one by one": [1] * 40,
    "mixed": [200, 1, 3, 300, 7],
    "up to the cache's growth": [255],
    "at the cache's growth": [250, 6],
}


@pytest.fixture(scope="module")
def target():
    return tiny_target()


# ------------------------------------------------------------------ the draft


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_delta_of_the_draft_equals_the_reference(target, kind, chunks):
    twins = Twins(tiny_drafter(target, **kind))
    twins.ingest(chunks)
    assert too_far(twins.errors()) == {}


@pytest.mark.parametrize("block_size", range(2, 17))
@pytest.mark.parametrize("is_causal", [None, True, False])
def test_every_block_size_equals_the_reference(target, block_size, is_causal):
    layers = {"layer_types": (SLIDING, FULL), "sliding_window": 16, "is_causal": is_causal}
    twins = Twins(tiny_drafter(target, block_size=block_size, **layers))
    twins.ingest([30, 2])
    assert too_far(twins.errors()) == {}


@pytest.mark.parametrize("is_causal", [None, False])
def test_a_window_shorter_than_the_block_holds_inside_the_block(target, is_causal):
    twins = Twins(tiny_drafter(target, layer_types=(SLIDING, SLIDING), sliding_window=3, is_causal=is_causal))
    twins.ingest([30])
    assert too_far(twins.errors()) == {}


@st.composite
def drafts(draw):
    """Fields of a draft's config, and chunks of context."""
    kv_heads, shared, layers = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    block = draw(st.integers(2, 16))
    yarn = st.builds(
        lambda factor, context: {"type": "yarn", "factor": factor, "original_max_position_embeddings": context},
        st.sampled_from([2.0, 8.0, 64.0]),
        st.sampled_from([32, 256, 4096]),
    )
    changes = {
        "num_hidden_layers": layers,
        "num_attention_heads": kv_heads * shared,
        "num_key_value_heads": kv_heads,
        "head_dim": draw(st.sampled_from([4, 8, 32])),
        "block_size": block,
        "rope_theta": draw(st.sampled_from([1e4, 1e6, 1e7])),
        "rope_scaling": draw(st.none() | yarn),
        "layer_types": tuple(draw(st.sampled_from([FULL, SLIDING])) for _ in range(layers)),
        "sliding_window": draw(st.integers(block, 700)),
        "is_causal": draw(st.sampled_from([None, True, False])),
        "final_logit_softcapping": draw(st.sampled_from([None, 5.0])),
    }
    return changes, draw(st.lists(st.integers(1, 120), max_size=5))


@given(draft=drafts())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_drafts_of_any_shape_equal_the_reference(target, draft):
    changes, chunks = draft
    twins = Twins(tiny_drafter(target, **changes))
    twins.ingest(chunks)
    assert too_far(twins.errors()) == {}


def test_rows_after_a_trim_stand_where_the_forgotten_ones_stood(target):
    twins = Twins(tiny_drafter(target))
    twins.ingest([20])
    twins.context.queue([mx.ones((9, 32))] * 2)
    twins.drafter.ingest(twins.context)
    twins.context.trim_to(20)
    twins.ingest([5])
    assert too_far(twins.errors()) == {}


def test_the_block_is_embedded_as_the_target_embeds():
    twins = Twins(tiny_drafter(family_target("granite"), input_embedding_scale=0.5))
    twins.ingest([30])
    assert too_far(twins.errors()) == {}


@pytest.mark.parametrize(("projection", "norm"), [("q_proj", "q_norm"), ("k_proj", "k_norm")])
def test_the_scale_of_a_heads_queries_or_keys_does_not_matter(target, projection, norm):
    """The norm of each head on its own takes the scale away."""
    changes = {"rms_norm_eps": 1e-12, "rope_scaling": YARN}  # eps is all that could keep a trace of it
    plain, scaled = (Twins(tiny_drafter(target, **changes)) for _ in range(2))
    for layer in scaled.draft.layers:
        linear = getattr(layer.self_attn, projection)
        heads = linear.weight.shape[0] // layer.self_attn[norm].weight.shape[0]
        factors = mx.array(np.geomspace(0.1, 30, heads), dtype=mx.float32)
        linear.weight = (linear.weight.reshape(heads, -1) * factors[:, None]).reshape(linear.weight.shape)
    careless = [Twins(twins.drafter, NormOverAllChannels) for twins in (plain, scaled)]
    for twins in (plain, scaled, *careless):
        twins.ingest([20, 11])
    matrices = target_matrices(target)
    assert relative_error(scaled.logits(*matrices)[0], plain.logits(*matrices)[0]) <= TOLERANCE
    assert relative_error(*(twins.logits(*matrices)[1] for twins in careless)) > FAR


# ----------------------------------------------------------------------- YaRN


def test_yarn_keeps_fast_pairs_stretches_slow_ones_and_warms_the_scores(target):
    """The rules of the YaRN paper that hold whatever way the pairs between are mixed (sections 3.2 and 3.4)."""
    head_dim, theta, factor, context = 128, 1e7, 8.0, 32768
    scaling = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": context}
    drafter = tiny_drafter(target, head_dim=head_dim, rope_theta=theta, rope_scaling=scaling)
    ones = mx.concatenate([mx.ones((1, 1, 1, head_dim // 2)), mx.zeros((1, 1, 1, head_dim // 2))], axis=-1)
    real, imaginary = np.split(float64(drafter.draft.rope(ones, offset=1))[0, 0, 0], 2)

    plain = theta ** (-2.0 * np.arange(head_dim // 2) / head_dim)
    stretch = plain / np.arctan2(imaginary, real)
    turns = context * plain / (2 * math.pi)
    assert np.allclose(stretch[turns > 32], 1, rtol=1e-5)
    assert np.allclose(stretch[turns < 1], factor, rtol=1e-5)
    between = stretch[(turns <= 32) & (turns >= 1)]
    assert len(between) > 5
    assert (np.diff(between) > 0).all()
    assert between[0] < 1.5
    assert between[-1] > factor / 2
    assert np.allclose(np.hypot(real, imaginary), 0.1 * math.log(factor) + 1, rtol=1e-6)


# ------------------------------------------------------------- known mistakes


MISREADINGS = [
    {"is_causal": True},
    {"sliding_window": 21},
    {"layer_types": (FULL, FULL)},
    {"rope_scaling": None},
    {"final_logit_softcapping": None},
    {"input_embedding_scale": 1.0},
    {"output_multiplier": 1.0},
]
REVEALING = {
    "layer_types": (SLIDING, FULL),
    "sliding_window": 20,
    "rope_scaling": YARN,
    "final_logit_softcapping": 5.0,
    "input_embedding_scale": 0.2,
    "output_multiplier": 0.3,
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_known_mistake_is_far_from_the_draft(target, mistake):
    twins = Twins(tiny_drafter(target), mistake)
    twins.ingest([20, 11])
    assert max(twins.errors().values()) > FAR


@pytest.mark.parametrize("misread", MISREADINGS, ids=lambda misread: next(iter(misread)))
def test_a_field_read_wrongly_is_far_from_the_draft(target, misread):
    twins = Twins(tiny_drafter(target, **REVEALING), **misread)
    twins.ingest([20, 11])
    assert max(twins.errors().values()) > FAR


def test_the_draft_that_shows_misread_fields_equals_the_reference(target):
    twins = Twins(tiny_drafter(target, **REVEALING))
    twins.ingest([20, 11])
    assert too_far(twins.errors()) == {}


# ----------------------------------------------------------------- the target


def llama_layers(target: Target) -> list[ReferenceLlamaLayer]:
    args = target.model.args
    return [
        ReferenceLlamaLayer(
            weights_of(layer),
            heads=args.num_attention_heads,
            kv_heads=args.num_key_value_heads,
            head_dim=args.head_dim,
            theta=args.rope_theta,
            eps=args.rms_norm_eps,
        )
        for layer in target.layers
    ]


@pytest.mark.parametrize("head_dim", [8, 32])
@pytest.mark.parametrize(
    "passes",
    [
        [(1, 1)] * 6,
        [(40, 40), (1, 1), (8, 8), (1, 1)],
        [(250, 250), (16, 3), (16, 0), (2, 1), (16, 16), (8, 5), (1, 1)],
    ],
    ids=["one by one", "chunks", "rolled back"],
)
def test_the_targets_layers_read_through_taps_equal_the_reference(head_dim, passes):
    """Passes are (rows, rows committed); the reference never remembers a row that was not committed."""
    target = tiny_target(head_dim=head_dim)
    for layer in target.layers:  # scores near one, as trained models have: sharp ones magnify the rounding of angles
        layer.self_attn.q_proj.weight *= 0.125
    target.set_taps(range(LAYERS))
    layers, session, random = llama_layers(target), Session(target, None), np.random.default_rng(6)
    embedding = float64(target.model.model.embed_tokens.weight)
    for rows, kept in passes:
        tokens = random.integers(MASK + 1, VOCABULARY, rows)
        taps = session.forward(mx.array(tokens, dtype=mx.uint32)).taps
        session.commit(tokens[:kept].tolist(), taps)
        streams = [embedding[tokens], *map(float64, taps)]
        for layer, (before, after) in zip(layers, pairwise(streams), strict=True):
            assert relative_error(after - before, layer(before, keep=kept)) <= TOLERANCE


def test_a_row_that_should_have_been_forgotten_is_far_from_the_target():
    target = tiny_target()
    target.set_taps(range(LAYERS))
    layer, cache = llama_layers(target)[0], target.make_cache()
    embedding = float64(target.model.model.embed_tokens.weight)
    target.forward(mx.array([4, 9, 33]), cache)  # all three stay in the cache: the trim is missed
    layer(embedding[[4, 9, 33]], keep=2)
    (tap, *_) = target.forward(mx.array([70]), cache).taps
    assert relative_error(float64(tap) - embedding[[70]], layer(embedding[[70]], keep=1)) > FAR


# -------------------------------------------------------------- the demo pair


@pytest.fixture(scope="module")
def demo_text(demo):
    """200 tokens of real text and the one after them, and their tap rows."""
    if demo.target.dtype != mx.float32:
        pytest.skip("this device loads the demo pair in fewer bits than float32")
    text = (Path(__file__).parent / "data" / "english.txt").read_text()
    tokens = demo.tokenizer.encode(text, parse_special=False)[:201]
    return tokens, demo.target.forward(mx.array(tokens[:-1]), demo.target.make_cache()).taps


@pytest.fixture(scope="module")
def demo_matrices(demo):
    """The target's embedding and LM head."""
    return target_matrices(demo.target)


@pytest.mark.parametrize("length", [50, 120, 200])
def test_the_demo_draft_on_real_text_proposes_what_the_reference_does(demo, demo_text, demo_matrices, length):
    tokens, taps = demo_text
    twins = Twins(demo.drafter)
    for rows in (slice(0, length // 2), slice(length // 2, length)):
        twins.ingest_rows([tap[rows] for tap in taps])
    proposed, expected = twins.logits(*demo_matrices, anchor=tokens[length])
    assert relative_error(proposed, expected) < 1e-4
    assert (proposed.argmax(axis=-1) == expected.argmax(axis=-1)).all()
