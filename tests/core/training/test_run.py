"""A training run: it raises acceptance, an interruption changes nothing, and a kill leaves a draft that loads."""

from __future__ import annotations

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from core.engine.drafter_mlx import load_draft
from core.errors import BadRequest, UnreadableModel, UselessConversations
from core.training.run import Progress, TrainingRun
from core.training.settings import Beginning, Settings, begin_folder, read_settings
from core.training.start import begin_from_draft, begin_from_target
from core.training.synthesis import Frame
from helpers.chain import FRAME
from helpers.tiny import MASK, VOCABULARY


def settings(steps, **changes):
    small = {
        "seed": 0,
        "learning_rate": 6e-3,
        "blocks_a_conversation": 32,
        "shard_rows": 48,
        "max_tokens": 336,
        "held_out": 8,
        "measure_every": 1000,
    }
    return Settings(Beginning("chain", None, 8, MASK), steps, **{**small, **changes})


def open_run(folder, target, chosen, frame=FRAME):
    if read_settings(folder) is None:
        begin_folder(folder, chosen)
    return TrainingRun(folder, chosen, target, frame, begin_from_target(target, MASK, 8))


def train(run, steps=10**9):
    """To the end, or for so many steps from here."""
    first = run._learner.step
    return list(run.train(lambda: run._learner.step - first >= steps))


def weights(folder, target):
    return dict(tree_flatten(load_draft(folder / "draft", target, None).parameters()))


def test_a_toy_training_raises_acceptance(chain, tmp_path):
    measured = [p for p in train(open_run(tmp_path, chain, settings(120))) if p.by_position]
    assert measured[0].tokens_per_step < 1.2
    assert measured[-1].tokens_per_step > 2
    assert measured[-1].loss is not None
    shares = measured[-1].by_position
    assert list(shares) == sorted(shares, reverse=True)


def test_an_interrupted_run_ends_with_the_weights_of_one_that_was_not(chain, tmp_path):
    chosen = settings(30)
    whole = tmp_path / "whole"
    train(open_run(whole, chain, chosen))
    parts = tmp_path / "parts"
    for steps in (7, 1, 13, 100):
        last = train(open_run(parts, chain, chosen), steps)[-1]
    assert last.doing == "done"
    mine, theirs = weights(parts, chain), weights(whole, chain)
    assert all(mx.array_equal(mine[name], theirs[name]) for name in theirs)


def test_a_lost_shard_is_written_again_as_it_was(chain, tmp_path):
    chosen = settings(20)
    for folder in (tmp_path / "a", tmp_path / "b"):
        train(open_run(folder, chain, chosen), 8)
    for shard in (tmp_path / "b" / "corpus").glob("shard-*"):
        shard.unlink()
    for folder in (tmp_path / "a", tmp_path / "b"):
        train(open_run(folder, chain, chosen))
    mine, theirs = weights(tmp_path / "a", chain), weights(tmp_path / "b", chain)
    assert all(mx.array_equal(mine[name], theirs[name]) for name in theirs)


def test_the_draft_in_the_folder_can_be_trained_on(chain, tmp_path):
    train(open_run(tmp_path / "first", chain, settings(2)))
    draft = begin_from_draft(tmp_path / "first" / "draft", chain, 16)
    assert draft.config.block_size == 16
    assert draft.config.mask_token_id == MASK


def test_two_checkpoints_are_kept_and_a_damaged_one_is_said_to_be_damaged(chain, tmp_path):
    chosen = settings(10)
    for _ in range(4):
        train(open_run(tmp_path, chain, chosen), 2)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-0000006.safetensors", "step-0000008.safetensors"]
    newest = tmp_path / "checkpoints" / names[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    with pytest.raises(UnreadableModel):
        open_run(tmp_path, chain, chosen)
    newest.unlink()
    assert open_run(tmp_path, chain, chosen)._learner.step == 6


def test_a_folder_is_not_taken_over_by_other_settings(tmp_path):
    begin_folder(tmp_path, settings(10))
    with pytest.raises(BadRequest):
        begin_folder(tmp_path, settings(11))
    assert read_settings(tmp_path) == settings(10)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UnreadableModel):
        read_settings(tmp_path)


def test_a_target_whose_answers_are_of_no_use_ends_the_run_with_a_reason(chain, tmp_path):
    all_end = Frame(FRAME.before, FRAME.between, frozenset(range(VOCABULARY)))
    with pytest.raises(UselessConversations):
        train(open_run(tmp_path, chain, settings(2, shard_rows=4), all_end))


def test_the_log_holds_every_report(chain, tmp_path):
    import msgspec

    reports = train(open_run(tmp_path, chain, settings(3)))
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=Progress) for line in lines] == reports
