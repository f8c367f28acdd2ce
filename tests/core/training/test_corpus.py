"""Conversations on disk: what is written is read again, and what is damaged or another's is refused."""

import numpy as np
import pytest

from core.errors import BadRequest, MissingFile, UnreadableModel
from core.training.corpus import Conversation, Corpus, Manifest, read_conversations, without_loops, write_conversations


def conversation(answer, temperature=0.0):
    return Conversation(np.array([1, 2, 3, *answer], np.uint32), 3, temperature)


def test_a_shard_is_read_as_it_was_written(tmp_path):
    written = [conversation([4, 5], 0.6), conversation([70_000] * 3)]
    corpus = Corpus(tmp_path, Manifest("a", 100_000, 0))
    write_conversations(corpus.path(3), written)
    read = corpus.shard(3)
    assert [c.ids.tolist() for c in read] == [[1, 2, 3, 4, 5], [1, 2, 3, 70_000, 70_000, 70_000]]
    assert [c.answer_start for c in read] == [3, 3]
    assert [c.temperature for c in read] == pytest.approx([0.6, 0])
    assert [c.feature_rows.tolist() for c in read] == [[], []]


def test_a_conversations_features_are_read_by_its_rows(tmp_path):
    corpus = Corpus(tmp_path, Manifest("a", 10, 0))
    features = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    rows = [np.array([3, 0]), np.array([1])]
    talks = [Conversation(np.arange(len(r) + 1, dtype=np.uint32), 1, 0.0, r) for r in rows]
    write_conversations(corpus.path(0), talks)
    assert not corpus.complete(0)
    corpus.features_path(0).write_bytes(features.tobytes())
    assert corpus.complete(0)
    for conversation, expected in zip(corpus.shard(0), rows, strict=True):
        assert np.array_equal(corpus.features(0, conversation.feature_rows, (3, 2)), features[expected])
    corpus.features_path(0).write_bytes(features.tobytes()[:24])
    with pytest.raises(UnreadableModel):
        corpus.features(0, rows[0], (3, 2))


def test_features_go_when_their_shard_is_used_up(tmp_path):
    corpus = Corpus(tmp_path, Manifest("a", 10, 0))
    for shard in range(3):
        corpus.features_path(shard).touch()
    corpus.drop_features_before(2)
    assert [corpus.features_path(shard).is_file() for shard in range(3)] == [False, False, True]


def test_a_corpus_without_conversations_can_be_kept(tmp_path):
    write_conversations(tmp_path / "none.npz", [])
    assert read_conversations(tmp_path / "none.npz") == []


def test_a_folder_of_another_target_or_seed_is_refused(tmp_path):
    Corpus(tmp_path, Manifest("a", 10, 0))
    Corpus(tmp_path, Manifest("a", 10, 0))
    for other in (Manifest("b", 10, 0), Manifest("a", 10, 1)):
        with pytest.raises(BadRequest):
            Corpus(tmp_path, other)


def test_a_damaged_manifest_is_said_to_be_damaged(tmp_path):
    Corpus(tmp_path, Manifest("a", 10, 0))
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(UnreadableModel):
        Corpus(tmp_path, Manifest("a", 10, 0))


@pytest.mark.parametrize("keep", [0, 1, 50, 200])
def test_a_shard_cut_off_is_said_to_be_damaged(tmp_path, keep):
    path = tmp_path / "cut.npz"
    write_conversations(path, [conversation(range(40))])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UnreadableModel):
        read_conversations(path)


def test_a_missing_shard_is_said_to_be_missing(tmp_path):
    with pytest.raises(MissingFile):
        read_conversations(tmp_path / "nothing.npz")


def test_answers_that_go_in_circles_are_left_out():
    straight = conversation(range(100))
    short = conversation([4, 4, 4])
    circle = conversation([4, 5, 6] * 40)
    repeated_once = conversation([*range(100), *range(10)])
    assert list(without_loops([straight, circle, short, repeated_once])) == [straight, short, repeated_once]
