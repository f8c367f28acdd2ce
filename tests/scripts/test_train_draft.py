"""The training script goes on with a run only as it was begun."""

from __future__ import annotations

import argparse

import pytest

from core.errors import BadRequest
from scripts.train_draft import settings_of

OPTIONS = ("target", "draft", "steps", "block_size", "mask_token", "learning_rate", "seed")


def options(folder, **given):
    return argparse.Namespace(folder=folder, writer=False, **{**dict.fromkeys(OPTIONS), **given})


@pytest.fixture
def begun(tmp_path):
    """A folder with a run in it."""
    settings_of(options(tmp_path, target="some/model", steps=100, seed=3))
    return tmp_path


def test_a_run_goes_on_without_options_and_with_those_it_was_begun_with(begun):
    settings = settings_of(options(begun))
    assert (settings.beginning.target, settings.steps, settings.seed) == ("some/model", 100, 3)
    assert (settings.beginning.block_size, settings.learning_rate) == (16, 5e-4)
    assert settings_of(options(begun, target="some/model", steps=100, block_size=16, learning_rate=5e-4)) == settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target", "other/model"),
        ("draft", "some/draft"),
        ("steps", 200),
        ("block_size", 8),
        ("mask_token", 0),
        ("learning_rate", 1e-4),
        ("seed", 0),
    ],
)
def test_an_option_that_the_run_was_not_begun_with_is_refused_by_name(begun, name, value):
    with pytest.raises(BadRequest, match="--" + name.replace("_", "-")):
        settings_of(options(begun, **{name: value}))


def test_a_folder_without_a_run_needs_the_steps(tmp_path):
    with pytest.raises(BadRequest, match="no run"):
        settings_of(options(tmp_path))
