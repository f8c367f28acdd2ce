"""A training run in a process of its own, to be killed: `python training_child.py FOLDER STEPS`.

Saves after every step, and prints a line then. With `writer` in place of the steps it is the writer of that run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import core.engine
import core.training.run
from core.training.feed import Feed
from core.training.settings import begin_folder, read_settings
from core.training.start import begin_from_target
from core.training.writer import Writer, serve, share_cores
from helpers.chain import FRAME, chain_target
from helpers.tiny import MASK
from helpers.toy_run import open_toy_run, toy_settings


def main() -> None:
    """Train to the end, or write shards."""
    folder = Path(sys.argv[1])
    share_cores()
    if sys.argv[2] == "writer":
        target = chain_target()
        begin_from_target(target, MASK, 8)  # puts its taps on
        settings = read_settings(folder)
        assert settings is not None
        serve(Feed(folder, settings, target, FRAME).write)
    core.training.run._CHECKPOINT_S = 0.0
    settings = toy_settings(int(sys.argv[2]))
    begin_folder(folder, settings)
    with Writer([sys.executable, __file__, str(folder), "writer"]) as writer:
        run = open_toy_run(folder, settings, writer=writer)

        def tell() -> bool:
            print(run.step, flush=True)
            return False

        for _ in run.train(tell):
            pass


if __name__ == "__main__":
    main()
