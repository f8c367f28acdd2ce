"""Conversations of a target with itself, in shards on disk: a folder with a manifest, resumable and deterministic.

Shard `i` of a corpus is a function of the target, the seed and `i` alone, so it can always be written again. Beside the
conversations it has the target's features of their tokens, as they came out when the tokens were written. They are
large, and go once the shard is used up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import msgspec
import numpy as np
import numpy.typing as npt

from core.errors import BadRequest, MissingFile, UnreadableModel
from core.files import replace_file

_MANIFEST = "manifest.json"
LOOP_GRAM = 8
LOOP_SHARE = 0.15
"""A share of repeated 8-grams above which an answer goes in circles."""

Ids = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Conversation:
    """One question and its answer as token ids, chat template included."""

    ids: Ids
    answer_start: int
    """Index of the answer's first token."""
    temperature: float
    """At which the answer was drawn; 0 is greedy."""
    feature_rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """[L - 1] rows of the shard's features, one a token but the last; empty where features were not kept."""

    @property
    def loops(self) -> bool:
        """Whether the answer repeats itself, as small models do."""
        answer = self.ids[self.answer_start :]
        if len(answer) < 2 * LOOP_GRAM:
            return False
        grams = np.lib.stride_tricks.sliding_window_view(answer, LOOP_GRAM)
        return 1 - len(np.unique(grams, axis=0)) / len(grams) > LOOP_SHARE


class Manifest(msgspec.Struct, frozen=True):
    """What a corpus folder was made from."""

    target: str
    """Fingerprint of the target's weights."""
    vocab_size: int
    seed: int


class Corpus:
    """The shards of a folder."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open the folder, or begin it. Raises `BadRequest` where it holds another corpus."""
        self.folder = folder
        self.manifest = manifest
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _MANIFEST
        if path.exists():
            if _read_manifest(path) != manifest:
                raise BadRequest(
                    f"The folder {folder} holds conversations of another target, or of another seed.",
                    "Choose an empty folder, or the target and the seed that it was begun with.",
                )
        else:
            replace_file(path, msgspec.json.format(msgspec.json.encode(manifest)))

    def path(self, shard: int) -> Path:
        """Where a shard is, or would be."""
        return self.folder / f"shard-{shard:05d}.npz"

    def features_path(self, shard: int) -> Path:
        """Where a shard's features are, or would be: float32 numbers, row after row."""
        return self.folder / f"features-{shard:05d}.bin"

    def complete(self, shard: int) -> bool:
        """Whether a shard is there with its features."""
        return self.path(shard).is_file() and self.features_path(shard).is_file()

    def features(self, shard: int, rows: npt.NDArray[np.int64], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """[len(rows), *shape] features of a shard. Raises `UnreadableModel`."""
        path = self.features_path(shard)
        try:
            return np.memmap(path, np.float32, "r").reshape(-1, *shape)[rows]
        except (OSError, ValueError, IndexError) as error:
            raise UnreadableModel(
                f"The corpus file {path.name} is damaged.", "Delete it: it is written again.", str(error)
            ) from error

    def drop_features_before(self, shard: int) -> None:
        """Delete the features of earlier shards."""
        for path in self.folder.glob("features-*.bin"):
            if path.name < self.features_path(shard).name:
                path.unlink()

    def shard(self, shard: int) -> list[Conversation]:
        """The conversations of a shard. Raises `MissingFile`, `UnreadableModel`."""
        return read_conversations(self.path(shard))


def write_conversations(path: Path, conversations: Sequence[Conversation]) -> None:
    """Write conversations as one npz file: ids end to end, offsets, answer_start, temperature."""
    file = BytesIO()
    np.savez_compressed(
        file,
        ids=np.concatenate([np.zeros(0, np.uint32), *(c.ids for c in conversations)]),
        offsets=np.cumsum([0, *(len(c.ids) for c in conversations)], dtype=np.int64),
        answer_start=np.array([c.answer_start for c in conversations], np.int64),
        temperature=np.array([c.temperature for c in conversations], np.float32),
        feature_rows=np.concatenate([np.zeros(0, np.int64), *(c.feature_rows for c in conversations)]),
        feature_offsets=np.cumsum([0, *(len(c.feature_rows) for c in conversations)], dtype=np.int64),
    )
    replace_file(path, file.getvalue())


def read_conversations(path: Path) -> list[Conversation]:
    """Read such a file. Raises `MissingFile`, `UnreadableModel`."""
    if not path.is_file():
        raise MissingFile(f"The corpus file {path} does not exist.", "Check the path.")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            ids, offsets = arrays["ids"].astype(np.uint32), arrays["offsets"]
            starts, temperatures = arrays["answer_start"], arrays["temperature"]
            rows, row_offsets = arrays["feature_rows"], arrays["feature_offsets"]
        return [
            Conversation(
                ids[offsets[i] : offsets[i + 1]],
                int(starts[i]),
                float(temperatures[i]),
                rows[row_offsets[i] : row_offsets[i + 1]],
            )
            for i in range(len(offsets) - 1)
        ]
    except (OSError, ValueError, KeyError, IndexError, EOFError, BadZipFile) as error:
        raise UnreadableModel(
            f"The corpus file {path.name} is damaged.", "Delete it: it is written again.", str(error)
        ) from error


def without_loops(conversations: Iterable[Conversation]) -> Iterator[Conversation]:
    """Those whose answers do not go in circles."""
    return (conversation for conversation in conversations if not conversation.loops)


def _read_manifest(path: Path) -> Manifest:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise UnreadableModel(f"The file {path} is damaged.", "Choose an empty folder.", str(error)) from error
