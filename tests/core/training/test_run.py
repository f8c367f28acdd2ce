"""A training run: it raises acceptance, an interruption changes nothing, and a kill leaves a draft that loads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from core.engine.draft_weights import load_draft
from core.errors import BadRequest, UnreadableModel, UselessConversations
from core.training.checkpoint import newest_state
from core.training.run import Progress
from core.training.settings import begin_folder, read_settings
from core.training.start import begin_from_draft
from core.training.synthesis import Frame
from helpers import training_child
from helpers.chain import FRAME
from helpers.tiny import MASK, VOCABULARY
from helpers.toy_run import open_toy_run, toy_settings


def train(run, steps=10**9):
    """To the end, or for so many steps from here."""
    first = run.step
    return list(run.train(lambda: run.step - first >= steps))


def weights(folder, target):
    return dict(tree_flatten(load_draft(folder / "draft", target, None).parameters()))


@pytest.mark.slow
def test_a_toy_training_raises_acceptance(chain, tmp_path):
    measured = [p for p in train(open_toy_run(tmp_path, toy_settings(120), chain)) if p.by_position]
    assert measured[0].tokens_per_step < 1.2
    assert measured[-1].tokens_per_step > 2
    assert measured[-1].loss is not None
    shares = measured[-1].by_position
    assert list(shares) == sorted(shares, reverse=True)


@pytest.mark.slow
def test_an_interrupted_run_ends_with_the_weights_of_one_that_was_not(chain, tmp_path):
    chosen = toy_settings(30)
    whole = tmp_path / "whole"
    train(open_toy_run(whole, chosen, chain))
    parts = tmp_path / "parts"
    for steps in (7, 1, 13, 100):
        last = train(open_toy_run(parts, chosen, chain), steps)[-1]
    assert last.doing == "done"
    mine, theirs = weights(parts, chain), weights(whole, chain)
    assert all(mx.array_equal(mine[name], theirs[name]) for name in theirs)


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_what_the_run_can_go_on_from(chain, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(open_toy_run(whole, toy_settings(16), chain))
    command = [sys.executable, str(Path(training_child.__file__)), str(killed), "16"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for delay_s in (0.0, 0.02, 0.05, 0.11):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        assert child.stdout is not None
        first = child.stdout.readline()
        assert child.stdout.readline(), "two steps or more"
        threading.Event().wait(delay_s)  # somewhere within the work or the saving that follows
        child.kill()
        # The run's writer holds the other end of its standard error: this returns when both have ended.
        child.communicate(timeout=20)
        state = newest_state(killed / "checkpoints")
        assert state is not None
        assert state.step > int(first)
        assert weights(killed, chain)
    train(open_toy_run(killed, toy_settings(16), chain))
    mine, theirs = weights(killed, chain), weights(whole, chain)
    assert all(mx.array_equal(mine[name], theirs[name]) for name in theirs)


@pytest.mark.slow
def test_a_lost_shard_is_written_again_as_it_was(chain, tmp_path):
    chosen = toy_settings(20)
    for folder in (tmp_path / "a", tmp_path / "b"):
        train(open_toy_run(folder, chosen, chain), 8)
    for shard in (tmp_path / "b" / "corpus").glob("shard-*"):
        shard.unlink()
    for folder in (tmp_path / "a", tmp_path / "b"):
        train(open_toy_run(folder, chosen, chain))
    mine, theirs = weights(tmp_path / "a", chain), weights(tmp_path / "b", chain)
    assert all(mx.array_equal(mine[name], theirs[name]) for name in theirs)


def test_the_draft_in_the_folder_can_be_trained_on(chain, tmp_path):
    train(open_toy_run(tmp_path / "first", toy_settings(2), chain))
    draft = begin_from_draft(tmp_path / "first" / "draft", chain, 16)
    assert draft.config.block_size == 16
    assert draft.config.mask_token_id == MASK


def test_two_checkpoints_are_kept_and_a_damaged_one_is_said_to_be_damaged(chain, tmp_path):
    chosen = toy_settings(10)
    for _ in range(4):
        train(open_toy_run(tmp_path, chosen, chain), 2)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-0000006.safetensors", "step-0000008.safetensors"]
    newest = tmp_path / "checkpoints" / names[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    with pytest.raises(UnreadableModel):
        open_toy_run(tmp_path, chosen, chain)
    newest.unlink()
    assert open_toy_run(tmp_path, chosen, chain).step == 6


def test_a_folder_is_not_taken_over_by_other_settings(tmp_path):
    begin_folder(tmp_path, toy_settings(10))
    with pytest.raises(BadRequest):
        begin_folder(tmp_path, toy_settings(11))
    assert read_settings(tmp_path) == toy_settings(10)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UnreadableModel):
        read_settings(tmp_path)


def test_a_target_whose_answers_are_of_no_use_ends_the_run_with_a_reason(chain, tmp_path):
    all_end = Frame(FRAME.before, FRAME.between, frozenset(range(VOCABULARY)))
    with pytest.raises(UselessConversations):
        train(open_toy_run(tmp_path, toy_settings(2, shard_rows=4), chain, all_end))


def test_the_log_holds_every_report(chain, tmp_path):
    import msgspec

    reports = train(open_toy_run(tmp_path, toy_settings(3), chain))
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=Progress) for line in lines] == reports
