"""The target: taps read the right layers, and leave no trace when taken off."""

from __future__ import annotations

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from core.engine.target import Target
from core.errors import PairMismatch, UnsupportedModel
from helpers.tiny import LAYERS, VOCABULARY, tiny_target

TOKENS = mx.array([3, 14, 15, 92, 6])


def by_hand(target: Target) -> list[mx.array]:
    """The residual stream after each layer, from the model's own parts."""
    rows = target.model.model.embed_tokens(TOKENS[None])
    outputs = []
    for layer in target.layers:
        rows = layer(rows, "causal", None)
        outputs.append(rows[0])
    return outputs


@pytest.fixture
def target():
    return tiny_target()


def test_a_tap_is_the_output_of_its_layer(target):
    expected = by_hand(target)
    target.set_taps([0, 2, 3])
    forward = target.forward(TOKENS, target.make_cache())
    assert forward.logits.shape == (5, VOCABULARY)
    assert len(forward.taps) == 3
    for tap, layer in zip(forward.taps, (0, 2, 3), strict=True):
        assert mx.allclose(tap, expected[layer], atol=1e-5)


def test_tapping_again_reads_the_new_layers_not_the_old_ones(target):
    expected = by_hand(target)
    target.set_taps([0, 2])
    target.forward(TOKENS, target.make_cache())
    target.set_taps([1])
    (tap,) = target.forward(TOKENS, target.make_cache()).taps
    assert mx.allclose(tap, expected[1], atol=1e-5)


def test_taps_taken_off_leave_the_model_as_it_was(target):
    before = [type(layer) for layer in target.layers]
    names = [name for name, _ in tree_flatten(target.model.parameters())]
    target.set_taps([0, 2])
    assert [name for name, _ in tree_flatten(target.model.parameters())] == names
    target.clear_taps()
    assert [type(layer) for layer in target.layers] == before
    assert target.forward(TOKENS, target.make_cache()).taps == ()


def test_taps_do_not_change_the_logits(target):
    plain = target.forward(TOKENS, target.make_cache()).logits
    target.set_taps(range(LAYERS))
    assert mx.array_equal(target.forward(TOKENS, target.make_cache()).logits, plain)


def test_a_tap_on_a_missing_layer_is_refused(target):
    with pytest.raises(PairMismatch, match=r"layer 4 .* 4 layers"):
        target.set_taps([1, LAYERS])


def test_embedding_and_head_are_the_models_own(target):
    hidden = target.model.model(TOKENS[None])[0]
    assert mx.allclose(target.lm_head(hidden), target.model(TOKENS[None])[0], atol=1e-5)
    assert mx.array_equal(target.embed(TOKENS), target.model.model.embed_tokens(TOKENS))
    assert (target.hidden_size, target.vocab_size) == (32, VOCABULARY)


def test_a_model_of_unknown_build_is_refused():
    with pytest.raises(UnsupportedModel):
        Target(nn.Linear(2, 2), 16)
