"""Gemma 3 from GGUF files: the numbers of an independent forward pass, and SentencePiece's own tokens."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx import nn
from mlx_lm.models.cache import KVCache

from core.engine.gguf import load_gguf
from core.engine.loader import load_target
from core.engine.tokenizer import Tokenizer
from core.errors import UnreadableModel, UnsupportedModel
from core.formats.gguf_header import read_gguf
from core.pairs.facts import read_facts
from helpers import gguf_files as files
from helpers import gguf_gemma as gemma

TOKENS = [2, 270, 283, 17, 90, 300, 264, 3, 8, 121, 299, 271, 30, 31, 32, 270, 283, 5, 6, 7]
"""More than twice the window."""


def logits(model: nn.Module) -> np.ndarray:
    return np.array(model(mx.array(TOKENS)[None])[0].astype(mx.float32))


def test_logits_are_those_of_an_independent_forward_pass(tmp_path: Path) -> None:
    gemma.write_tiny_gemma(tmp_path / "tiny.gguf")
    model, info = load_gguf(tmp_path / "tiny.gguf", dequantize=True)
    expected = gemma.reference_logits(TOKENS)
    # mlx-lm rounds the embedding's scale to bfloat16, as the original does: 5.6569 becomes 5.65625.
    np.testing.assert_allclose(logits(model), expected, rtol=0, atol=2e-3 * np.abs(expected).max())
    assert (logits(model).argmax(-1) == expected.argmax(-1)).all()
    assert (info.name, info.context_length) == ("Tiny Gemma", gemma.CONTEXT)
    kinds = [type(cache) for cache in model.make_cache()]
    assert [kind is KVCache for kind in kinds] == [False] * 5 + [True]


@pytest.mark.parametrize(
    "changes",
    [{"gemma3__attention__sliding_window": files.UInt32(64)}, {"gemma3__rope__freq_base": 5e3}],
    ids=lambda changes: next(iter(changes)),
)
def test_the_window_and_the_global_base_matter(tmp_path: Path, changes: dict[str, object]) -> None:
    """So that the test above would see them ignored."""
    gemma.write_tiny_gemma(tmp_path / "tiny.gguf", **changes)
    expected = gemma.reference_logits(TOKENS)
    found = logits(load_gguf(tmp_path / "tiny.gguf", dequantize=True)[0])
    assert np.abs(found - expected).max() > 1e-2 * np.abs(expected).max()


@pytest.mark.parametrize("type_name", ["Q4_1", "Q8_0"])
def test_the_model_kept_quantised_agrees_with_the_dequantised_one(tmp_path: Path, type_name: str) -> None:
    gemma.write_tiny_gemma(tmp_path / "tiny.gguf", type_name)
    wide, packed = (load_gguf(tmp_path / "tiny.gguf", dequantize=choice)[0] for choice in (True, False))
    assert isinstance(packed.model.embed_tokens, nn.QuantizedEmbedding)
    expected = logits(wide)
    assert np.abs(logits(packed) - expected).max() < 0.05 * np.abs(expected).max()


def test_position_scaling_of_the_larger_models_reaches_the_global_layers_only(tmp_path: Path) -> None:
    scaling = {"gemma3__rope__scaling__type": "linear", "gemma3__rope__scaling__factor": 8.0}
    gemma.write_tiny_gemma(tmp_path / "tiny.gguf", **scaling)
    model, _ = load_gguf(tmp_path / "tiny.gguf", dequantize=True)
    assert [getattr(layer.self_attn.rope, "scale", 1.0) for layer in model.layers] == [1.0] * 5 + [0.125]


def test_other_position_scaling_and_half_a_file_are_refused(tmp_path: Path) -> None:
    gemma.write_tiny_gemma(tmp_path / "other.gguf", gemma3__rope__scaling__type="yarn")
    with pytest.raises(UnsupportedModel, match="yarn"):
        load_gguf(tmp_path / "other.gguf", dequantize=True)
    gemma.write_tiny_gemma(tmp_path / "half.gguf", gemma3__attention__sliding_window=None)
    with pytest.raises(UnreadableModel, match=r"gemma3\.attention\.sliding_window"):
        load_gguf(tmp_path / "half.gguf", dequantize=True)


def test_it_is_a_target_like_others(tmp_path: Path) -> None:
    gemma.write_tiny_gemma(tmp_path / "tiny.gguf")
    target, tokenizer = load_target(tmp_path / "tiny.gguf")
    assert (target.context_length, target.vocab_size) == (gemma.CONTEXT, len(gemma.vocabulary()))
    assert 1 in tokenizer.eos_ids
    facts = read_facts(tmp_path / "tiny.gguf")
    assert facts.config["model_type"] == "gemma3_text"
    assert facts.gguf


# ----------------------------------------------------------------------- tokens


@pytest.fixture(scope="module", params=[False, True], ids=["as it is", "space before"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Our tokenizer, and SentencePiece itself with the same vocabulary."""
    path = tmp_path_factory.mktemp("gemma") / "tiny.gguf"
    gemma.write_tiny_gemma(path, tokenizer__ggml__add_space_prefix=request.param)
    theirs = gemma.sentencepiece(gemma.vocabulary(), space_before=request.param)
    return Tokenizer.from_gguf(read_gguf(path)), theirs


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=st.lists(st.sampled_from(["the", " ", "cat", "a", "he", "l", ".", "Ä", "é", "你", "🤖"]), min_size=1))
def test_ids_are_those_of_sentencepiece(both, text: list[str]) -> None:
    ours, theirs = both
    joined = "".join(text)
    if joined.startswith(" ") or "  " in joined:
        joined = "a" + joined.replace("  ", " ")  # runs of spaces are tokens of their own: below
    ids = ours.encode(joined, parse_special=False)
    assert ids == theirs.encode(joined)
    assert ours.decode(ids) == joined


def test_line_breaks_and_runs_of_spaces_are_tokens_of_their_own(both) -> None:
    ours, theirs = both
    text = "a\n\nthe   cat\n  a"
    ids = ours.encode(text, parse_special=False)
    assert [token for token in ids if token in range(4, 8)] == [4, 7, 5, 6]
    assert ours.decode(ids) == text
    if not ours.strips_first_space:
        assert ids == theirs.encode(text)


def test_control_tokens_are_text_unless_asked_for(both) -> None:
    ours, _ = both
    assert ours.encode("<bos>", parse_special=True) == [2]
    assert 2 not in ours.encode("<bos>", parse_special=False)


def test_scores_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for scores in (None, [0.0], ["a"] * len(gemma.vocabulary())):
        gemma.write_tiny_gemma(tmp_path / "odd.gguf", tokenizer__ggml__scores=scores)
        with pytest.raises(UnreadableModel, match="token scores"):
            Tokenizer.from_gguf(read_gguf(tmp_path / "odd.gguf"))
