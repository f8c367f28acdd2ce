"""What a training run is, decided when it begins and kept in its folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from core.errors import BadRequest, UnreadableModel
from core.files import replace_file


class Beginning(msgspec.Struct, frozen=True):
    """What a run begins with."""

    target: str
    """Path of a model folder or a GGUF file."""
    draft: str | None
    """Path of the draft to go on from; None for the target's own last layers."""
    block_size: int
    mask_token: int | None
    """None for one that is found."""


class Settings(msgspec.Struct, frozen=True):
    """What a run's result depends on. The defaults suit 2 cores and the demo target."""

    beginning: Beginning
    steps: int
    seed: int = 0
    learning_rate: float = 5e-4
    conversations_a_step: int = 2
    blocks_a_conversation: int = 64
    shard_rows: int = 192
    """Conversations that are written at once: a product of 192 rows costs 1.6 times one of 96."""
    max_tokens: int = 640
    """Of a conversation in every fourth shard; of half as many in the others."""
    held_out: int = 24
    measure_every: int = 100
    """Steps between two measurements on the held-out conversations."""


def read_settings(folder: Path) -> Settings | None:
    """The settings of the run in `folder`; None where there is no run. Raises `UnreadableModel`."""
    path = _path(folder)
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Settings)
    except msgspec.DecodeError as error:
        raise UnreadableModel(f"The file {path} is damaged.", "Begin in another folder.", str(error)) from error


def begin_folder(folder: Path, settings: Settings) -> None:
    """Write the settings of a new run. Raises `BadRequest` where the folder holds another one."""
    begun = read_settings(folder)
    if begun is not None and begun != settings:
        raise BadRequest(f"The run in {folder} began with other settings.", "Leave them out to go on with it.")
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(_path(folder), msgspec.json.format(msgspec.json.encode(settings)))


def _path(folder: Path) -> Path:
    return folder / "run.json"
