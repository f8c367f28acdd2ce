"""A process that compiles kernels and stops in the middle: `kernels_child.py DRAFT CACHE STOP`.

It prints `at STOP` when the progress has been told STOP times, and waits for its end there; else it prints the key.
"""

from __future__ import annotations

import sys
import threading

import ane


def main(draft: str, cache: str, stop: int) -> None:
    told = 0

    def progress(*_: object) -> None:
        nonlocal told
        if told == stop:
            print(f"at {stop}", flush=True)
            threading.Event().wait()
        told += 1

    print(ane.compile_kernels(draft, cache, width=16, context=512, progress=progress).key, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
