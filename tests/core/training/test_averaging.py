"""The average of drafts: the mean of every weight, and refusals where that would mean nothing."""

from __future__ import annotations

import sys

import mlx.core as mx
import pytest

from core.engine.draft_weights import read_weights
from core.errors import BadRequest, MissingFile
from core.formats.draft_config import read_draft_config
from core.training.averaging import average_drafts
from helpers.random_drafts import random_weights, write_draft
from helpers.tiny import tiny_config
from scripts import average_drafts as script


@pytest.fixture
def drafts(tmp_path):
    config = tiny_config()
    return [write_draft(tmp_path / str(seed), config, random_weights(config, seed)) for seed in range(3)]


def test_every_weight_is_the_mean_of_its_kind(drafts, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["average_drafts.py", str(tmp_path / "mean"), *map(str, drafts)])
    script.main()
    folders = [*drafts, tmp_path / "mean"]
    *parts, mean = [read_weights(folder, read_draft_config(folder)) for folder in folders]
    assert mean.keys() == parts[0].keys()
    for name, weight in mean.items():
        expected = sum(part[name].astype(mx.float32) for part in parts) / 3
        assert mx.allclose(weight.astype(mx.float32), expected, rtol=1e-2, atol=1e-4), name


def test_the_block_may_differ_and_is_that_of_the_last(drafts, tmp_path):
    longer = tiny_config(block_size=16)
    config, _ = average_drafts([drafts[0], write_draft(tmp_path / "longer", longer, random_weights(longer))])
    assert config.block_size == 16


def test_drafts_of_another_kind_are_refused(drafts, tmp_path):
    other = tiny_config(target_layer_ids=(0, 1))
    with pytest.raises(BadRequest, match="not the same kind of draft"):
        average_drafts([drafts[0], write_draft(tmp_path / "other", other, random_weights(other))])


def test_one_draft_and_a_missing_one_are_refused(drafts, tmp_path):
    with pytest.raises(BadRequest, match="two drafts at least"):
        average_drafts(drafts[:1])
    with pytest.raises(MissingFile):
        average_drafts([drafts[0], tmp_path / "nowhere"])


def test_the_command_says_what_is_wrong_in_a_sentence(drafts, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["average_drafts.py", str(tmp_path / "mean"), str(drafts[0])])
    with pytest.raises(SystemExit, match="An average needs two drafts at least"):
        script.main()
    assert not (tmp_path / "mean").exists()
