"""The average of drafts that came from one another: often better than each of them.

Runs that began from the same weights and saw other text lie around the same low place, each off by noise of its own,
which the mean takes out (Wortsman and others, "Model soups", 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import msgspec

from core.engine.draft_weights import read_weights
from core.errors import BadRequest
from core.formats.draft_config import DraftConfig, read_draft_config


def average_drafts(folders: Sequence[Path]) -> tuple[DraftConfig, dict[str, mx.array]]:
    """The mean of the drafts' weights in float32, and the config of the last one.

    Raises `BadRequest` for less than two drafts, and for drafts that differ in more than the block; and as
    `read_draft_config` and `read_weights`.
    """
    if len(folders) < 2:
        raise BadRequest("An average needs two drafts at least.")
    configs = [read_draft_config(folder) for folder in folders]
    for folder, config in zip(folders, configs, strict=True):
        if msgspec.structs.replace(config, block_size=configs[-1].block_size) != configs[-1]:
            raise BadRequest(f"{folder.name} and {folders[-1].name} are not the same kind of draft.")
    parts = [read_weights(folder, config) for folder, config in zip(folders, configs, strict=True)]
    means = {name: mx.mean(mx.stack([part[name].astype(mx.float32) for part in parts]), axis=0) for name in parts[-1]}
    mx.eval(means)
    return configs[-1], means
