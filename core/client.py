"""The asynchronous client of the worker process, for window and terminal alike.

It owns the child process: starts it with the first request, notices its end, and starts a new one with the
next request. It holds no model and imports no mlx.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal

from core.cpu_compiler import compiler_environment
from core.errors import MirrorError, Problem, WorkerDied, WorkerStartFailed
from core.protocol import (
    HEADER_BYTES,
    Cancel,
    Event,
    EventFrame,
    Failed,
    Hello,
    Log,
    Request,
    RequestFrame,
    Shutdown,
    decode_event,
    encode,
    ends,
    payload_length,
)

Owner = Literal["window", "terminal"]

_LOG_TAIL_LINES = 40
_LOG_PIECE_BYTES = 16 * 1024
_EXIT_GRACE_S = 3.0


def worker_command(owner: Owner) -> list[str]:
    """The command line that starts a worker. Without -P a `core` folder in the user's folder would win."""
    return [sys.executable, "-P", "-m", "core.worker", "--owner", owner]


def worker_environment() -> dict[str, str]:
    """The worker's environment."""
    return {**os.environ, **compiler_environment(), "PYTHONUNBUFFERED": "1"}


class Call:
    """A request under way: iterate over its events; the last one ends the iteration."""

    def __init__(self, client: EngineClient, call_id: int, request: Request) -> None:
        self.id = call_id
        self.request = request
        self._client = client
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._ended = False

    def put(self, event: Event) -> None:
        """Called by the client with each event of this request."""
        self._events.put_nowait(event)

    async def cancel(self) -> None:
        """Ask the worker to stop at its next boundary; the last event still comes."""
        await self._client.cancel(self.id)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while not self._ended:
            event = await self._events.get()
            self._ended = ends(self.request, event)
            yield event


class EngineClient:
    """Sends requests to the worker and hands its events to the calls they belong to.

    `on_event` gets the events that belong to no request (`Hello`, `Log`, `Heartbeat`).
    """

    def __init__(
        self,
        owner: Owner,
        on_event: Callable[[Event], None] | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self._command = list(command or worker_command(owner))
        self._on_event = on_event or (lambda _event: None)
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._hello: asyncio.Future[Hello] | None = None
        self._start_lock = asyncio.Lock()
        self._calls: dict[int, Call] = {}
        self._last_id = 0
        self._log_tail: deque[str] = deque(maxlen=_LOG_TAIL_LINES)

    @property
    def worker_pid(self) -> int | None:
        """The process id of the running worker."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> Hello:
        """Start the worker unless it runs, and wait for its greeting. Raises `WorkerStartFailed`, `WorkerDied`."""
        async with self._start_lock:
            if self._process is None:
                await self._spawn()
            assert self._hello is not None
            return await asyncio.shield(self._hello)

    async def send(self, request: Request) -> Call:
        """Send a request; a worker is started where none runs. Errors of the start become the call's `Failed`."""
        self._last_id += 1
        call = Call(self, self._last_id, request)
        self._calls[call.id] = call
        try:
            await self.start()
            await self._write(RequestFrame(call.id, request))
        except MirrorError as error:
            self._end_call(call.id, Failed(error.problem))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the worker just died: the reader that sees its end fails all calls
        return call

    @property
    def under_way(self) -> tuple[Request, ...]:
        """The requests that have not ended, in the order in which they were sent."""
        return tuple(call.request for call in self._calls.values())

    def refuse(self, request: Request, problem: Problem) -> Call:
        """A call that ends at once, with this problem; nothing is sent."""
        self._last_id += 1
        call = Call(self, self._last_id, request)
        call.put(Failed(problem))
        return call

    async def cancel(self, call_id: int) -> None:
        """Ask for the end of a call. Harmless when it has ended."""
        if call_id in self._calls and self.worker_pid is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                await self._write(RequestFrame(0, Cancel(call_id)))

    async def close(self) -> int | None:
        """End the worker: ask, then terminate, then kill. Returns its exit code once it is gone; None without one."""
        process = self._process
        if process is None:
            return None
        if process.returncode is None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for call_id in list(self._calls):
                    await self.cancel(call_id)
                await self._write(RequestFrame(0, Shutdown()))
            for stop in (process.terminate, process.kill):
                try:
                    await asyncio.wait_for(asyncio.shield(process.wait()), _EXIT_GRACE_S)
                    break
                except TimeoutError:
                    with contextlib.suppress(ProcessLookupError):
                        stop()
            await process.wait()
        await asyncio.gather(*self._readers)
        return process.returncode

    # ------------------------------------------------------------ the process

    async def _spawn(self) -> None:
        self._log_tail.clear()
        self._hello = asyncio.get_running_loop().create_future()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=worker_environment(),
                start_new_session=True,  # Ctrl+C in a terminal is for the client, which then asks to cancel
            )
        except OSError as error:
            raise WorkerStartFailed(
                "The engine process could not be started.",
                "Run `mirror-sd doctor` to see what is missing.",
                f"{self._command}: {error}",
            ) from error
        stderr = asyncio.create_task(self._read_log(self._process))
        self._readers = [stderr, asyncio.create_task(self._read_events(self._process, stderr))]

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        rest = ""
        # Read in pieces: a line may be of any length, and readline() gives up on long ones.
        while piece := await process.stderr.read(_LOG_PIECE_BYTES):
            *lines, rest = (rest + piece.decode("utf-8", "replace")).split("\n")
            if len(rest) > _LOG_PIECE_BYTES:
                lines, rest = [*lines, rest], ""
            for line in lines:
                self._log_tail.append(line.rstrip())
                self._on_event(Log("info", line.rstrip()))
        if rest:
            self._log_tail.append(rest)

    async def _read_events(self, process: asyncio.subprocess.Process, stderr: asyncio.Task[None]) -> None:
        assert process.stdout is not None
        problem: Problem | None = None
        try:
            while True:
                header = await process.stdout.readexactly(HEADER_BYTES)
                payload = await process.stdout.readexactly(payload_length(header))
                self._dispatch(decode_event(payload))
        except asyncio.IncompleteReadError:
            pass  # the end of the stream: the process has ended or is about to
        except MirrorError as error:
            problem = error.problem
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        await stderr
        self._worker_ended(process, problem)

    def _dispatch(self, frame: EventFrame) -> None:
        if isinstance(frame.body, Hello) and self._hello and not self._hello.done():
            self._hello.set_result(frame.body)
        if frame.id == 0:
            self._on_event(frame.body)
            return
        call = self._calls.get(frame.id)
        if call is None:
            return  # an event that crossed the end of its call
        call.put(frame.body)
        if ends(call.request, frame.body):
            del self._calls[frame.id]

    def _worker_ended(self, process: asyncio.subprocess.Process, problem: Problem | None) -> None:
        self._process = None
        died = WorkerDied(
            f"The engine process ended unexpectedly ({describe_exit(process.returncode)}).",
            "Send the next message: the engine is started anew. What was written so far is kept.",
            "\n".join(self._log_tail),
        )
        problem = problem or died.problem
        if self._hello and not self._hello.done():
            self._hello.set_exception(died)
            self._hello.exception()  # whoever waits gets it; nobody waiting is fine
        for call_id in list(self._calls):
            self._end_call(call_id, Failed(problem))

    def _end_call(self, call_id: int, event: Event) -> None:
        call = self._calls.pop(call_id, None)
        if call is not None:
            call.put(event)

    async def _write(self, frame: RequestFrame) -> None:
        if self._process is None or self._process.stdin is None:
            raise BrokenPipeError
        self._process.stdin.write(encode(frame))
        await self._process.stdin.drain()


def describe_exit(returncode: int | None) -> str:
    """A process's end in words: its signal's name, or its exit code."""
    if returncode is not None and returncode < 0:
        try:
            return signal.Signals(-returncode).name
        except ValueError:
            return f"signal {-returncode}"
    return f"exit code {returncode}"
