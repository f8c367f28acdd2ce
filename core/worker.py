"""The worker process: holds the models, answers requests, and owns everything of MLX on its main thread.

Requests come on standard input, events leave on a private copy of standard output; file descriptor 1 itself is
pointed at standard error first thing, so that no print of any library can break a frame. When standard input ends
the parent is gone, and the process ends at once.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import logging
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import partial

from core.activity import working
from core.errors import InternalError, MirrorError, ProtocolError
from core.paths import settings_file
from core.protocol import (
    HEADER_BYTES,
    Cancel,
    Event,
    EventFrame,
    Failed,
    Heartbeat,
    RequestFrame,
    Shutdown,
    decode_request,
    encode,
    payload_length,
)
from core.settings_file import read_settings

_HEARTBEAT_S = 1.0

log = logging.getLogger("mirror_sd.worker")


class EventPipe:
    """Writes whole frames to the client, from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, request_id: int, event: Event) -> None:
        """Blocks while the pipe is full."""
        frame = memoryview(encode(EventFrame(request_id, event)))
        with self._lock:
            while frame:
                frame = frame[os.write(self._descriptor, frame) :]


class Requests:
    """Reads requests on a thread of its own: `Cancel` takes effect at once, all others queue up."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._queue: queue.Queue[RequestFrame] = queue.Queue()
        self._cancelled: set[int] = set()

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, name="requests", daemon=True).start()

    def cancelled(self, request_id: int) -> bool:
        """Whether the client asked for this request's end."""
        return request_id in self._cancelled

    def __iter__(self) -> Iterator[RequestFrame]:
        while True:
            yield self._queue.get()

    def _read(self) -> None:
        """Ends the process at the end of input, whatever the MLX thread is doing: nobody is left to answer."""
        try:
            with os.fdopen(self._descriptor, "rb") as stream:
                while header := stream.read(HEADER_BYTES):
                    frame = decode_request(stream.read(payload_length(header)))
                    if isinstance(frame.body, Cancel):
                        self._cancelled.add(frame.body.request_id)
                    else:
                        self._queue.put(frame)
        except (ProtocolError, OSError, ValueError):
            log.exception("reading requests")
            os._exit(2)
        os._exit(0)


def take_standard_streams() -> tuple[int, int]:
    """Private descriptors for requests and events; 0 then reads nothing and 1 writes to standard error."""
    requests, events = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, events


def serve(requests: Requests, pipe: EventPipe, owner: str, pulse: Pulse) -> None:
    """Answer requests until `Shutdown`. Runs on the main thread, which owns MLX."""
    threads = read_settings(settings_file()).target_threads
    if threads:  # read when core.engine takes the BLAS
        os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
    from core.engine.service import Service

    service = Service(owner, lambda: read_settings(settings_file()))
    pulse.held_bytes = service.held_bytes
    pipe.send(0, service.hello())
    for frame in requests:
        if isinstance(frame.body, Shutdown):
            break
        answering = service.answer(frame.body, partial(requests.cancelled, frame.id))
        with contextlib.closing(answering) as events, working(type(frame.body).__name__):
            _forward(events, pipe, frame.id)
    service.close()


def _forward(events: Iterator[Event], pipe: EventPipe, request_id: int) -> None:
    """Send all events; an error becomes `Failed`, and the worker goes on."""
    try:
        for event in events:
            pipe.send(request_id, event)
    except MirrorError as error:
        log.warning("%s: %s %s", error.problem.kind, error.problem.sentence, error.problem.detail)
        pipe.send(request_id, Failed(error.problem))
    except Exception as error:  # a defect must reach the user as well, and must not end the worker
        log.exception("request %d", request_id)
        problem = InternalError(
            f"The engine met an unexpected error: {type(error).__name__}: {error}",
            "Send the message again. If it comes back, please report it with the log.",
            traceback.format_exc(),
        ).problem
        pipe.send(request_id, Failed(problem))


class Pulse:
    """Tells every second that the worker lives, and what memory it takes; on a thread of its own."""

    def __init__(self, pipe: EventPipe) -> None:
        self._pipe = pipe
        self.held_bytes: Callable[[], int] = lambda: 0
        """What of it is held of earlier conversations; called on the pulse's thread."""

    def start(self) -> None:
        """Begin to tell."""
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def _beat(self) -> None:
        import psutil

        process, pause = psutil.Process(), threading.Event()
        while True:
            free_bytes = psutil.virtual_memory().available
            self._pipe.send(0, Heartbeat(process.memory_info().rss, free_bytes, self.held_bytes()))
            pause.wait(_HEARTBEAT_S)


def main() -> int:
    """Entry point of `python -m core.worker`."""
    requests_fd, events_fd = take_standard_streams()
    parser = argparse.ArgumentParser(prog="core.worker")
    parser.add_argument("--owner", choices=("window", "terminal"), required=True)
    owner = parser.parse_args().owner
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client decides what Ctrl+C means
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody reads: end
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    requests, pipe = Requests(requests_fd), EventPipe(events_fd)
    requests.start()
    pulse = Pulse(pipe)
    pulse.start()
    serve(requests, pipe, owner, pulse)
    return 0


if __name__ == "__main__":
    sys.exit(main())
