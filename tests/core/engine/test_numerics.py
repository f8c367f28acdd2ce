"""Programs are compared with the draft in MLX before they are trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ane
from core.engine.drafter_ane import AneDrafter
from core.engine.loader import load_pair_now
from core.engine.numerics import compare
from core.pairs import Pair
from helpers.programs import TinyPrograms
from helpers.random_drafts import mlx_draft, random_weights, write_draft
from helpers.tiny import tiny_config


@pytest.fixture
def tiny(tmp_path: Path) -> Any:
    programs = TinyPrograms(tmp_path / "draft")
    yield programs
    programs.thread.close()


def test_the_same_draft_is_sound(tiny: Any) -> None:
    numerics = compare(tiny.drafter, tiny.in_mlx, tiny.target)
    assert numerics.sound
    assert len(numerics.layer_errors) == 2
    assert 0 < max(numerics.layer_errors) < 5e-3
    assert numerics.top1_agreement > 0.9


def test_other_weights_in_one_layer_are_found_there(tiny: Any) -> None:
    config = tiny_config()
    weights = random_weights(config)
    weights["layers.1.mlp.down_proj.weight"] *= 2
    tiny.in_mlx.draft = mlx_draft(config, weights)
    numerics = compare(tiny.drafter, tiny.in_mlx, tiny.target)
    assert not numerics.sound
    assert numerics.layer_errors[0] < 5e-3 < 0.1 < numerics.layer_errors[1]


def test_a_pair_whose_programs_compute_something_else_does_without_them(
    tiny_pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config()
    other = write_draft(tmp_path / "other", config, random_weights(config, seed=5))
    programs = ane.CpuRuntime().load(other, width=16, context=512)
    begin = AneDrafter.__init__
    monkeypatch.setattr(AneDrafter, "__init__", lambda self, folder, _, *others: begin(self, folder, programs, *others))
    loaded = load_pair_now(tiny_pair)
    try:
        assert loaded.modes == ("plain", "lookup", "gpu", "auto")
        assert "compute something else" in loaded.missing["ane"]
        assert loaded.missing.keys() == {"ane", "mirror"}
    finally:
        loaded.close()
