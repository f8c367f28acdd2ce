"""A training run that takes seconds: a draft of the chain target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.engine.target import Target
from core.training.run import TrainingRun
from core.training.settings import Beginning, Settings, begin_folder, read_settings
from core.training.start import begin_from_target
from core.training.synthesis import Frame
from core.training.writer import Writer
from helpers.chain import FRAME, chain_target
from helpers.tiny import MASK


def toy_settings(steps: int, **changes: Any) -> Settings:
    """Settings of a run of so many steps."""
    small: dict[str, Any] = {
        "learning_rate": 6e-3,
        "blocks_a_conversation": 32,
        "shard_rows": 48,
        "max_tokens": 336,
        "held_out": 8,
        "measure_every": 1000,
    }
    return Settings(Beginning("chain", None, 8, MASK), steps, **{**small, **changes})


def open_toy_run(
    folder: Path,
    settings: Settings,
    target: Target | None = None,
    frame: Frame = FRAME,
    writer: Writer | None = None,
) -> TrainingRun:
    """The run in `folder`, begun if there is none."""
    target = target or chain_target()
    if read_settings(folder) is None:
        begin_folder(folder, settings)
    return TrainingRun(folder, settings, target, frame, begin_from_target(target, MASK, 8), writer)
