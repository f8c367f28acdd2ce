"""Measuring in turns: the real loop and a real peer process on the tiny pair."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import mlx.core as mx
import pytest

from core.bench.decode import (
    SPECULATIVE_PEER,
    OurMode,
    decode_rows,
    first_token_rows,
    measure_in_turns,
    peer_measure,
)
from core.bench.peers import Peer
from core.engine.loader import load_pair_now

PEER = Path(__file__).parents[3] / "scripts" / "peers" / "mlx_lm_peer.py"


@pytest.fixture
def loaded(tiny_pair):
    return load_pair_now(tiny_pair)


def test_our_modes_and_mlx_lm_give_the_same_tokens_and_rows(loaded):
    prompts = [[5, 8, 13, 21], [34, 55, 89]]
    ours = [OurMode(loaded, mode) for mode in loaded.modes]
    with Peer("mlx-lm", [sys.executable, str(PEER), loaded.pair.target]) as peer:
        systems = {"mlx-lm stream_generate": peer_measure(peer), **{mode.name: mode for mode in ours}}
        results = measure_in_turns(systems, prompts, runs=2, max_tokens=12)
        first_rows = first_token_rows(ours[1], peer_measure(peer), [5, 8, 13], [16, 40], runs=2)
    assert peer.versions.keys() == {"mlx-lm", "mlx"}
    texts = [tuple(len(text) for text in result.texts) for result in results.values()]
    assert texts == [(12, 12)] * 7
    assert results["mirror-sd plain"].tokens_per_step == [1.0, 1.0]
    rows = {each.name: each for each in decode_rows(ours, results)}
    assert rows["mirror-sd plain: speed"].ratio_to == "mlx-lm stream_generate"
    assert {len(set(texts)) for texts in zip(*(result.texts for result in results.values()), strict=True)} == {1}
    for mode in ("gpu", "ane", "mirror"):
        assert rows[f"mirror-sd {mode}: speed"].ratio_to == "mirror-sd plain"
        assert rows[f"{mode}: break-even"].value > 0
        assert rows[f"{mode} step: draft"].value > 0
    assert 0 <= rows["mirror: hits"].value <= 1
    assert 0 <= rows["mirror: overlap"].value <= 1
    assert "ane: hits" not in rows
    assert [each.name for each in first_rows] == ["first token after 16 tokens", "first token after 40 tokens"]


def test_a_peer_that_dies_is_told():
    with pytest.raises(RuntimeError, match="exit code 3"):
        Peer("broken", [sys.executable, "-c", "import sys; sys.exit(3)"])


@pytest.mark.parametrize("second", ["target", "contrary"])
def test_mlx_lm_speculating_with_a_second_model_gives_the_same_text(loaded, second, tmp_path):
    """The target itself is a second model that is always right; one whose logits have the other sign never is."""
    folder = Path(loaded.pair.target)
    if second == "contrary":
        folder = shutil.copytree(folder, tmp_path / "contrary")
        weights = mx.load(str(folder / "model.safetensors"))
        mx.save_safetensors(
            str(folder / "model.safetensors"), {**weights, "model.norm.weight": -weights["model.norm.weight"]}
        )
    command = [sys.executable, str(PEER), loaded.pair.target, "--draft-model", str(folder)]
    ours = {mode: OurMode(loaded, mode) for mode in ("plain", "lookup")}
    with Peer(SPECULATIVE_PEER, command) as peer:
        answer = peer.answer([5, 8, 13, 21], 14)
        results = measure_in_turns(
            {
                "mlx-lm stream_generate": ours["plain"],
                "mirror-sd plain": ours["plain"],
                SPECULATIVE_PEER: peer_measure(peer),
            },
            [[5, 8, 13, 21]],
            runs=1,
            max_tokens=14,
        )
    assert answer.tokens == ours["plain"]([5, 8, 13, 21], 14).tokens == ours["lookup"]([5, 8, 13, 21], 14).tokens
    assert len(answer.step_tokens) < 5 if second == "target" else len(answer.step_tokens) > 10
    rows = {each.name: each for each in decode_rows([ours["plain"]], results)}
    assert rows[f"{SPECULATIVE_PEER}: speed"].value > 0
