"""A process that writes shards while the run trains on those before: at its side, and in it.

The run asks for shards on the process's standard input, and hears on its standard output which are there. When the
input ends the run is gone, and the process ends at once, in whatever it does.
"""

from __future__ import annotations

import ctypes
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

import mlx.core as mx

from core.engine import BLAS
from core.errors import Cancelled, WorkerDied

_LOOK_S = 0.5
"""Between two looks at whether the run was stopped."""


def share_cores() -> bool:
    """Whether a writer pays: on the CPU. Then this process, as the other, computes on half of the cores from here on.

    Call it in both: the last bits of a product depend on the number of threads.
    """
    if mx.default_device() != mx.Device(mx.cpu):
        return False
    if BLAS.path:
        ctypes.CDLL(BLAS.path).openblas_set_num_threads(max(1, (os.cpu_count() or 1) // 2))
    return True


class Writer:
    """The process, to be used in a `with` statement."""

    def __init__(self, command: Sequence[str], stopped: Callable[[], bool] = lambda: False) -> None:
        """Start `command`, which has to call `serve`. Nobody waits for a shard once `stopped` says so."""
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._stopped = stopped
        self._asked: set[int] = set()
        self._written: set[int] = set()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """End the process; what it has written half is written again."""
        self._process.communicate()

    def ask_for(self, shard: int) -> None:
        """Have a shard written, after those that were asked for before. Raises `WorkerDied`."""
        if shard in self._asked:
            return
        self._asked.add(shard)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{shard}\n".encode())
        except BrokenPipeError as error:
            raise self._died() from error

    def wait_for(self, shard: int) -> None:
        """Return when a shard is there. Raises `Cancelled` when stopped before, `WorkerDied`."""
        self.ask_for(shard)
        output = self._process.stdout
        assert output is not None
        while shard not in self._written:
            if self._stopped():
                raise Cancelled("The training was stopped while it waited for conversations.")
            if not select.select([output], [], [], _LOOK_S)[0]:
                continue
            line = output.readline()
            if not line:
                raise self._died()
            self._written.add(int(line))

    def _died(self) -> WorkerDied:
        return WorkerDied(
            "The process that writes conversations has ended.",
            "Start the training again: it goes on from its last checkpoint.",
            f"exit status {self._process.wait()}",
        )


def serve(write: Callable[[int], None]) -> None:
    """In the process: write the shards that are asked for. Does not return."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they reach the run too, which ends this process when it is done
    wanted: queue.SimpleQueue[int] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            wanted.put(int(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        shard = wanted.get()
        write(shard)
        print(shard, flush=True)
