"""Work on a thread of its own that tells how far it is: what it tells comes out of a generator, then its result."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from core.errors import Cancelled

_T = TypeVar("_T")
_Told = TypeVar("_Told")


def beside(work: Callable[[Callable[[_Told], None]], _T], cancelled: Callable[[], bool]) -> Generator[_Told, None, _T]:
    """Yield what `work` tells, return its result. However this ends, the work has ended; it must not touch MLX.

    `work` gets the function to tell with, which raises `Cancelled` once `cancelled` or when nobody listens any more.
    """
    told: queue.SimpleQueue[tuple[_Told] | None] = queue.SimpleQueue()
    abandoned = threading.Event()

    def tell(about: _Told) -> None:
        if abandoned.is_set() or cancelled():
            raise Cancelled("Stopped before the kernels were ready.", "What was there before is unchanged.")
        told.put((about,))

    with ThreadPoolExecutor(1, "beside") as executor:
        result = executor.submit(work, tell)
        result.add_done_callback(lambda _: told.put(None))
        try:
            while (event := told.get()) is not None:
                yield event[0]
        finally:
            abandoned.set()
    return result.result()
