"""The window's side of the engine process: the client, and what is known of process and pair."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_turn import EngineTurn, taken_by, work_of
from app.language import tr
from core.client import Call, EngineClient
from core.errors import NothingLoaded, Problem
from core.pairs import Pair
from core.protocol import Event, Failed, Heartbeat, Hello, Loaded, Log, Progress, Request, Unloaded

_WATCH_MS = 500
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_log = logging.getLogger(__name__)
_worker_log = logging.getLogger("worker")


class PairState(StrEnum):
    """What the pair button shows."""

    NOT_READY = "not ready"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


STATE_WORDS = {
    PairState.NOT_READY: tr("not ready"),
    PairState.LOADING: tr("loading"),
    PairState.READY: tr("ready"),
    PairState.FAILED: tr("failed"),
}
"""As they are shown."""


@dataclass(frozen=True)
class PairStatus:
    """The state of the pair, with what belongs to it."""

    state: PairState = PairState.NOT_READY
    name: str = ""
    """The pair's name; empty where none was chosen yet."""
    stage: str = ""
    """While loading: the stage in words."""
    percent: int | None = None
    """While loading: of the whole; None where its length is not known."""
    left_s: float | None = None
    """While loading: by earlier times; None where there were none."""
    progress: Progress | None = None
    """While loading: the last event of it."""
    loaded: Loaded | None = None
    """When ready."""
    problem: Problem | None = None
    """When failed."""


class Engine(QObject):
    """Sends requests and keeps the pair's status up to date from the events that come back."""

    status_changed = Signal(object)
    """`PairStatus`."""
    hello_received = Signal(object)
    """`Hello`, from every new process."""
    memory_changed = Signal(object)
    """`Heartbeat`: what the process takes, and the machine has left; None once the process is gone."""

    def __init__(self, command: Sequence[str] | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = EngineClient("window", self._on_event, command)
        self._status = PairStatus()
        self._pair_name = ""
        self._turn: EngineTurn | None = None
        # The client does not tell when an idle process ends, so look.
        self._watch = QTimer(self)
        self._watch.setInterval(_WATCH_MS)
        self._watch.timeout.connect(self._look_after_worker)

    @property
    def status(self) -> PairStatus:
        """The pair's status."""
        return self._status

    @property
    def worker_pid(self) -> int | None:
        """The process id of the engine process, if it runs."""
        return self._client.worker_pid

    async def send(self, request: Request) -> Call:
        """Send a request. Hand each of its events to `observe`. While a dialog has the engine, it is refused."""
        if self._turn is not None:
            return self._client.refuse(request, taken_by(self._turn.name).problem)
        return await self._send(request)

    def take_turn(self, name: str) -> EngineTurn:
        """The engine with its loaded pair, for a dialog alone until the turn is ended. `name`: as in "A race".

        Raises `EngineTaken` while something else is under way, `NothingLoaded` without a pair.
        """
        if self._turn is not None:
            raise taken_by(self._turn.name)
        if self._client.under_way or self._status.state is PairState.LOADING:
            raise taken_by(work_of(self._client.under_way))
        if self._status.loaded is None:
            raise NothingLoaded(tr("No pair is loaded."), tr("Load one first: the button at the top left."))
        self._turn = EngineTurn(name, self._status.loaded, self._send, self._end_turn)
        return self._turn

    async def _send(self, request: Request) -> Call:
        self._watch.start()
        return await self._client.send(request)

    def _end_turn(self) -> None:
        self._turn = None

    def observe(self, event: Event) -> None:
        """Learn the pair's status from an event."""
        loading = self._status.state is PairState.LOADING
        if isinstance(event, Progress):
            share = event.share if event.share is not None else event.done / event.total if event.total else None
            percent = None if share is None else round(100 * share)
            self._set_status(
                PairStatus(PairState.LOADING, stage=event.stage, percent=percent, left_s=event.left_s, progress=event)
            )
        elif isinstance(event, Loaded):
            self._set_status(PairStatus(PairState.READY, loaded=event))
        elif isinstance(event, Unloaded):
            self._set_status(PairStatus())
        elif isinstance(event, Failed):
            _log.error("%s: %s %s", event.problem.kind, event.problem.sentence, event.problem.detail)
            if loading and event.problem.kind != "Cancelled":
                self._set_status(PairStatus(PairState.FAILED, problem=event.problem))
            elif loading or self.worker_pid is None:
                self._set_status(PairStatus())

    def begin_loading(self, pair: Pair) -> None:
        """Show that a load has been asked for, before its first event."""
        self._pair_name = pair.name
        self._set_status(PairStatus(PairState.LOADING, stage=tr("starting the engine")))

    def fail(self, problem: Problem) -> None:
        """There is no pair to load, for this reason."""
        self._set_status(PairStatus(PairState.FAILED, problem=problem))

    async def end_worker(self) -> None:
        """End the engine process, whatever it does; the next request starts a new one."""
        self._watch.stop()
        await self._client.close()
        self._look_after_worker()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Heartbeat):
            self.memory_changed.emit(event)
        elif isinstance(event, Hello):
            _log.info("engine process: %s", event)
            self.hello_received.emit(event)
        elif isinstance(event, Log):
            _worker_log.log(_LEVELS[event.level], "%s", event.text)

    def _look_after_worker(self) -> None:
        if self.worker_pid is not None or self._status.state is PairState.LOADING:
            return
        self._watch.stop()
        self.memory_changed.emit(None)
        if self._status.state is PairState.READY:
            self._set_status(PairStatus())

    def _set_status(self, status: PairStatus) -> None:
        status = replace(status, name=self._pair_name)
        if status != self._status:
            self._status = status
            self.status_changed.emit(status)
