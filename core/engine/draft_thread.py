"""The thread on which a draft's programs run beside the target: them alone. MLX stays on its own thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from core.engine.spans import Span
from core.errors import DraftStopped

DRAFT_TIMEOUT_S = 10.0
"""A block takes milliseconds; after this long it is not coming."""


class Job:
    """Work that was handed over."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._ended = threading.Event()
        self._busy: Span = (0.0, 0.0)
        self._error: Exception | None = None

    def run(self) -> None:
        """Do it. Called by the draft's thread."""
        began_s = time.perf_counter()
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - goes to the thread that waits for it
            self._error = error
        self._busy = began_s, time.perf_counter()
        self._ended.set()

    def wait(self, timeout_s: float) -> Span:
        """Wait for its end; returns when it ran. Raises its error, and `DraftStopped` where it takes too long."""
        if not self._ended.wait(timeout_s):
            raise DraftStopped(
                f"The draft has not answered for {timeout_s:g} seconds.",
                "The answer goes on without it; load the pair again to use it again.",
            )
        if self._error is not None:
            raise self._error
        return self._busy


class DraftThread:
    """Runs jobs one after the other. It ends with the process, whatever a job does."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="draft", daemon=True)
        self._thread.start()

    def begin(self, work: Callable[[], None]) -> Job:
        """Hand over work, which must not touch MLX."""
        job = Job(work)
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """End after the job that runs now."""
        self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
