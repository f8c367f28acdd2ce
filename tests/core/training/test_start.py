"""Where a draft begins: the target's last layers in the published names, or another draft."""

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from core.engine.drafter_mlx import DFlashDraft
from core.errors import BadRequest, PairMismatch, UnsupportedModel
from core.training.start import begin_from_draft, begin_from_target, spread_taps, unused_token
from helpers.folders import write_draft_folder
from helpers.random_drafts import SECOND
from helpers.tiny import LAYERS, MASK, tiny_config, tiny_target


def test_a_new_draft_has_the_targets_last_layers_and_norm():
    target = tiny_target()
    draft = begin_from_target(target, MASK, 16)
    assert draft.config.block_size == 16
    assert draft.config.num_hidden_layers == LAYERS
    mine, theirs = draft.layers[-1], target.layers[-1]
    assert mx.array_equal(mine.self_attn.q_proj.weight, theirs.self_attn.q_proj.weight)
    assert mx.array_equal(mine.mlp.down_proj.weight, theirs.mlp.down_proj.weight)
    assert mx.array_equal(mine.input_layernorm.weight, theirs.input_layernorm.weight)
    assert mx.array_equal(draft.norm.weight, target.model.model.norm.weight)
    assert mx.array_equal(mine.self_attn.q_norm.weight, mx.ones(8))
    assert target.taps == draft.config.target_layer_ids


def test_a_quantised_target_gives_a_draft_of_its_dequantised_weights():
    plain, target = tiny_target(), tiny_target()
    nn.quantize(target.model, group_size=32, bits=8)
    expected = dict(tree_flatten(begin_from_target(plain, MASK, 8).parameters()))
    for name, weight in tree_flatten(begin_from_target(target, MASK, 8).parameters()):
        assert weight.dtype == mx.float32
        if name != "fc.weight":
            assert np.allclose(np.array(weight), np.array(expected[name]), atol=0.02), name


@pytest.mark.parametrize(
    ("layers", "taps"), [(36, (1, 9, 17, 25, 33)), (32, (1, 8, 15, 22, 29)), (64, (1, 16, 31, 46, 61)), (4, (1,))]
)
def test_taps_are_spread_as_in_the_published_drafts(layers, taps):
    assert spread_taps(layers) == taps


def test_another_draft_is_gone_on_from_with_another_block(tmp_path):
    folder = write_draft_folder(tmp_path / "draft", tiny_config())
    draft = begin_from_draft(folder, tiny_target(), 16)
    assert isinstance(draft, DFlashDraft)
    assert draft.config.block_size == 16
    with pytest.raises(PairMismatch):
        begin_from_draft(write_draft_folder(tmp_path / "other", tiny_config(vocab_size=97)), tiny_target(), 16)


@pytest.mark.parametrize(
    "changes",
    [
        {"layer_types": ("full_attention", "sliding_attention"), "sliding_window": 8},
        {"is_causal": True},
        {"attention_bias": True},
        SECOND,
        {"final_logit_softcapping": 30.0},
    ],
)
def test_a_kind_of_draft_that_cannot_be_trained_is_refused(tmp_path, changes):
    folder = write_draft_folder(tmp_path / "draft", tiny_config(**changes))
    with pytest.raises(BadRequest):
        begin_from_draft(folder, tiny_target(), 8)


def test_a_target_of_another_build_is_refused():
    target = tiny_target()
    target.layers[-1].mlp = nn.Linear(2, 2)
    with pytest.raises(UnsupportedModel):
        begin_from_target(target, MASK, 8)


def test_the_mask_of_the_demo_target_is_a_control_token_that_no_text_has(demo):
    token = unused_token(demo.target, demo.tokenizer)
    assert token in demo.tokenizer.special_ids - demo.tokenizer.eos_ids
    assert demo.tokenizer.token_text(token) not in (demo.tokenizer.chat_template or "")
