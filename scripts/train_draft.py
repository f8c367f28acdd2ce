"""Trains a DFlash draft for a target: `train_draft.py FOLDER --steps N` begins, `train_draft.py FOLDER` goes on.

Ctrl-C stops with a checkpoint. FOLDER/draft is the draft so far. See docs/TRAINING.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from core.cpu_compiler import compiler_environment
from core.engine.drafter_mlx import DFlashDraft
from core.engine.loader import load_target
from core.engine.target import Target
from core.engine.tokenizer import Tokenizer
from core.errors import BadRequest, MirrorError
from core.pairs import demo_pair
from core.training.run import Progress, TrainingRun
from core.training.settings import Beginning, Settings, begin_folder, read_settings
from core.training.start import begin_from_draft, begin_from_target, unused_token
from core.training.synthesis import chat_frame


def main() -> None:
    """Parse, then train until the last step or an interrupt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of the run: made, or gone on with")
    parser.add_argument("--target", metavar="PATH", help="model folder or GGUF file (default: the demo target)")
    parser.add_argument("--draft", metavar="DIR", help="begin from this draft, not from the target's last layers")
    parser.add_argument("--steps", type=int, metavar="N", help="of a new run")
    parser.add_argument("--block-size", type=int, default=16, metavar="N")
    parser.add_argument("--mask-token", type=int, metavar="ID", help="a token that no text has (default: found)")
    parser.add_argument("--learning-rate", type=float, default=5e-4, metavar="X")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    os.environ.update(compiler_environment())
    try:
        run = _open(arguments)
    except MirrorError as error:
        sys.exit(" ".join(part for part in (error.problem.sentence, error.problem.hint) if part))
    interrupted: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: interrupted.append(number))
    for progress in run.train(lambda: bool(interrupted)):
        print(_line(progress), flush=True)


def _open(arguments: argparse.Namespace) -> TrainingRun:
    """The run in the folder, begun if there is none."""
    settings = read_settings(arguments.folder)
    if settings is None:
        if arguments.steps is None:
            raise BadRequest(f"The folder {arguments.folder} holds no run.", "Begin one with --steps.")
        beginning = Beginning(
            arguments.target or demo_pair().target, arguments.draft, arguments.block_size, arguments.mask_token
        )
        settings = Settings(beginning, arguments.steps, arguments.seed, arguments.learning_rate)
        begin_folder(arguments.folder, settings)
    target, tokenizer = load_target(Path(settings.beginning.target))
    return TrainingRun(
        arguments.folder, settings, target, chat_frame(tokenizer), _first_draft(settings.beginning, target, tokenizer)
    )


def _first_draft(beginning: Beginning, target: Target, tokenizer: Tokenizer) -> DFlashDraft:
    if beginning.draft is not None:
        return begin_from_draft(Path(beginning.draft), target, beginning.block_size)
    mask_token = unused_token(target, tokenizer) if beginning.mask_token is None else beginning.mask_token
    return begin_from_target(target, mask_token, beginning.block_size)


def _line(progress: Progress) -> str:
    parts = [f"step {progress.step}/{progress.steps}", progress.doing]
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.3f}")
    if progress.tokens_per_step is not None:
        positions = " ".join(f"{share:.2f}" for share in progress.by_position or ())
        parts.append(f"held out: {progress.tokens_per_step:.3f} tokens a step, by position {positions}")
    if progress.left_s is not None:
        parts.append(f"{progress.left_s / 3600:.1f} h left")
    return " | ".join(parts)


if __name__ == "__main__":
    main()
