"""The target: taps read the right layers, and leave no trace when taken off."""

from __future__ import annotations

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from core.engine.target import Target
from core.errors import PairMismatch, UnsupportedModel
from helpers.families import FAMILIES, family_target
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


class LayersInAModule(nn.Module):
    """As one family of mlx-lm builds itself."""

    def __init__(self):
        super().__init__()
        self.embed_tokens, self.norm, self.layers = nn.Embedding(4, 2), nn.RMSNorm(2), nn.Linear(2, 2)


@pytest.mark.parametrize("model", [nn.Linear(2, 2), LayersInAModule()], ids=["linear", "layers in a module"])
def test_a_model_of_unknown_build_is_refused(model):
    with pytest.raises(UnsupportedModel):
        Target(model, 16)


def test_a_model_wrapped_with_a_vision_model_is_found_inside():
    wrapped, alone = family_target("gemma4"), family_target("gemma4_text")
    assert len(wrapped.layers) == len(alone.layers)
    assert mx.array_equal(wrapped.embed(TOKENS), alone.embed(TOKENS))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_embedding_is_what_the_first_layer_reads(family, monkeypatch):
    target = family_target(family)
    plain, read = type(target.layers[0]), []

    def call(layer, rows, *args, **kwargs):
        read.append((layer, rows))
        return plain_call(layer, rows, *args, **kwargs)

    plain_call = plain.__call__
    monkeypatch.setattr(plain, "__call__", call)
    target.forward(TOKENS, target.make_cache())
    monkeypatch.undo()
    rows = next(rows for layer, rows in read if layer is target.layers[0])
    assert mx.allclose(target.embed(TOKENS), rows[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("family", "scale"), [("gemma", 32**0.5), ("gemma2", 32**0.5), ("gemma3_text", 5.65625), ("granite", 6.0)]
)
def test_embeddings_are_scaled_as_the_family_does(family, scale):
    target = family_target(family)
    assert mx.allclose(target.embed(TOKENS), target.model.model.embed_tokens(TOKENS) * scale, rtol=1e-6)


@pytest.mark.parametrize("family", ["gemma", "gemma3_text", "granite"])
@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
def test_in_half_precision_the_scale_is_the_models_to_the_last_bit(family, dtype):
    target = family_target(family)
    target.model.set_dtype(dtype)
    target.set_taps([])
    scale = target.embed(TOKENS)[0] / target.model.model.embed_tokens(TOKENS)[0]
    inline = {"gemma": 32**0.5, "gemma3_text": 5.65625, "granite": 6.0}[family]
    assert target._embedding_scale.item() == mx.array(inline, dtype).item()
    assert scale.dtype == dtype


LOGITS = {
    "gemma2": (1.0, 30.0),
    "gemma4_text": (1.0, 30.0),
    "gemma4": (1.0, 30.0),
    "granite": (1 / 8, None),
    "granitemoehybrid": (1 / 8, None),
    "falcon_h1": (0.0390625 / 5.656854249492381, None),
    "recurrent_gemma": (1.0, 30.0),
    "cohere2": (0.25, None),
}
"""By family: what the model multiplies its head's logits with, and where it caps them."""


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_tap_through_norm_and_head_is_what_the_model_says(family):
    target = family_target(family)
    target.set_taps([LAYERS - 1])
    forward = target.forward(TOKENS, target.make_cache())
    logits = target.lm_head(target.final_norm(forward.taps[0]))
    scale, cap = LOGITS.get(family, (1.0, None))
    logits = logits * scale
    if cap is not None:
        logits = mx.tanh(logits / cap) * cap
    assert mx.allclose(logits, forward.logits, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_final_rows_are_those_that_the_head_reads(family):
    target = family_target(family)
    target.set_taps([LAYERS - 1])
    rows, (tap,) = target.final_rows(TOKENS)
    assert mx.allclose(rows, target.final_norm(tap), atol=1e-5)


def test_a_head_that_is_not_the_models_is_refused():
    target = family_target("gemma3_text")
    target.model.tie_word_embeddings = True  # and the head that is there is not used
    with pytest.raises(UnsupportedModel, match="LM head"):
        target.embed(TOKENS)


def test_a_model_that_computes_no_numbers_is_refused(target):
    target.model.lm_head.weight = target.model.lm_head.weight * float("nan")
    with pytest.raises(UnsupportedModel, match="LM head"):
        target.embed(TOKENS)


def test_embeddings_that_the_first_layer_does_not_read_are_refused(target, monkeypatch):
    embed = type(target.model.model.embed_tokens).__call__
    positions = mx.random.normal((16, 32))
    monkeypatch.setattr(
        type(target.model.model.embed_tokens),
        "__call__",
        lambda self, x: embed(self, x) + (positions if x.ndim == 2 else 0),
    )
    with pytest.raises(UnsupportedModel, match="embedding"):
        target.embed(TOKENS)


def test_measuring_the_embedding_leaves_no_taps_behind(target):
    target.set_taps([0])
    classes = [type(layer) for layer in target.layers]
    target.embed(TOKENS)
    assert [type(layer) for layer in target.layers] == classes
    assert target._recorded == {}
