"""Trains a DFlash draft for a target: `train_draft.py FOLDER --steps N` begins, `train_draft.py FOLDER` goes on.

Ctrl-C stops with a checkpoint. FOLDER/draft is the draft so far. See docs/TRAINING.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from core.cpu_compiler import compiler_environment
from core.engine.drafter_mlx import DFlashDraft
from core.engine.loader import load_target
from core.engine.target import Target
from core.engine.tokenizer import Tokenizer
from core.errors import BadRequest, MirrorError
from core.pairs import demo_pair
from core.training.feed import Feed
from core.training.run import Progress, TrainingRun
from core.training.settings import Beginning, Settings, begin_folder, read_settings
from core.training.start import begin_from_draft, begin_from_target, unused_token
from core.training.synthesis import chat_frame
from core.training.writer import Writer, serve, share_cores


def main() -> None:
    """Parse, then train until the last step or an interrupt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of the run: made, or gone on with")
    parser.add_argument("--target", metavar="PATH", help="model folder or GGUF file (default: the demo target)")
    parser.add_argument("--draft", metavar="DIR", help="begin from this draft, not from the target's last layers")
    parser.add_argument("--steps", type=int, metavar="N", help="of a new run")
    parser.add_argument("--block-size", type=int, metavar="N", help="default: 16")
    parser.add_argument("--mask-token", type=int, metavar="ID", help="a token that no text has (default: found)")
    parser.add_argument("--learning-rate", type=float, metavar="X", help="default: 5e-4")
    parser.add_argument("--seed", type=int, metavar="N", help="default: 0")
    parser.add_argument("--writer", action="store_true", help=argparse.SUPPRESS)  # what the run starts, to write shards
    arguments = parser.parse_args()
    os.environ.update(compiler_environment())
    try:
        settings = settings_of(arguments)
        target, tokenizer = load_target(Path(settings.beginning.target))
        draft, frame = _first_draft(settings.beginning, target, tokenizer), chat_frame(tokenizer)
        shared = share_cores()
        if arguments.writer:
            serve(Feed(arguments.folder, settings, target, frame).write)
        stopped = _stop_on_signals()
        command = [sys.executable, __file__, str(arguments.folder), "--writer"]
        with Writer(command, stopped) if shared else nullcontext() as writer:
            run = TrainingRun(arguments.folder, settings, target, frame, draft, writer)
            for progress in run.train(stopped):
                print(_line(progress), flush=True)
    except MirrorError as error:
        sys.exit(" ".join(part for part in (error.problem.sentence, error.problem.hint) if part))


def _stop_on_signals() -> Callable[[], bool]:
    """Whether Ctrl-C or a request to end has come since."""
    came: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: came.append(number))
    return lambda: bool(came)


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Those of the run in the folder, which is begun if there is none.

    Raises `BadRequest` where options are missing, or say something else than the run began with.
    """
    settings = read_settings(arguments.folder)
    if settings is None:
        if arguments.steps is None:
            raise BadRequest(f"The folder {arguments.folder} holds no run.", "Begin one with --steps.")
        beginning = Beginning(
            arguments.target or demo_pair().target, arguments.draft, arguments.block_size or 16, arguments.mask_token
        )
        rate = 5e-4 if arguments.learning_rate is None else arguments.learning_rate
        settings = Settings(beginning, arguments.steps, arguments.seed or 0, rate)
        begin_folder(arguments.folder, settings)
    for name, given in vars(arguments).items():
        begun = getattr(settings, name, getattr(settings.beginning, name, given))
        if given is not None and given != begun:
            option = "--" + name.replace("_", "-")
            raise BadRequest(
                f"The run in {arguments.folder} began with another {option}: {begun}, not {given}.",
                "Leave the option out to go on with the run, or choose another folder.",
            )
    return settings


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
