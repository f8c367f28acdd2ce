"""Averages the weights of drafts that came from one another: `average_drafts.py OUT DRAFT DRAFT...`.

See docs/TRAINING.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from core.errors import MirrorError
from core.training.averaging import average_drafts
from core.training.checkpoint import write_draft


def main() -> None:
    """Parse, average, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder that the average is written to")
    parser.add_argument(
        "drafts", type=Path, nargs="+", metavar="DRAFT", help="draft folders; the last gives the config"
    )
    arguments = parser.parse_args()
    try:
        write_draft(arguments.out, *average_drafts(arguments.drafts))
    except MirrorError as error:
        sys.exit(" ".join(part for part in (error.problem.sentence, error.problem.hint) if part))


if __name__ == "__main__":
    main()
