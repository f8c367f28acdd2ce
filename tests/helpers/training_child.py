"""A training run in a process of its own, to be killed: `python training_child.py FOLDER STEPS`.

Saves after every step, and prints a line then.
"""

from __future__ import annotations

import sys
from pathlib import Path

import core.engine
import core.training.run
from helpers.toy_run import open_toy_run, toy_settings


def main() -> None:
    """Train to the end."""
    core.training.run._CHECKPOINT_S = 0.0
    run = open_toy_run(Path(sys.argv[1]), toy_settings(int(sys.argv[2])))

    def tell() -> bool:
        print(run.step, flush=True)
        return False

    for _ in run.train(tell):
        pass


if __name__ == "__main__":
    main()
