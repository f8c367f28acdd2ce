"""A check of the loaded pair: its course, and what is known of it so far. No widgets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum

from PySide6.QtCore import QObject, Signal

from app.engine import Engine
from app.engine_turn import EngineTurn
from app.language import tr
from app.tasks import Tasks
from core.activity import working
from core.check_messages import Check, CheckedPrompt, CheckStarted, Verdict
from core.check_report import report
from core.errors import MirrorError
from core.protocol import Event, Failed, Progress


class CheckState(StrEnum):
    """Where the check stands."""

    IDLE = "idle"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class CheckModel(QObject):
    """Runs one check at a time, with the engine for itself."""

    changed = Signal()
    """State, progress or findings."""
    failed = Signal(object)
    """`Problem`."""

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._tasks = Tasks()
        self._turn: EngineTurn | None = None
        self.state = CheckState.IDLE
        self.request: Check | None = None
        self._forget()

    def _forget(self) -> None:
        self.started: CheckStarted | None = None
        self.checked: list[CheckedPrompt] = []
        self.verdict: Verdict | None = None
        self.progress: Progress | None = None

    @property
    def running(self) -> bool:
        """Whether a check is under way."""
        return self.state in (CheckState.RUNNING, CheckState.STOPPING)

    def start(self, read_prompts: Callable[[], tuple[str, ...]], max_tokens: int) -> None:
        """Check the loaded pair with these prompts. What keeps it from that is told through `failed`."""
        if self.running:
            return
        try:
            turn = self._engine.take_turn(tr("A check of the pair"))
        except MirrorError as error:
            self.failed.emit(error.problem)
            return
        self._turn = turn
        self._forget()
        self.request = None
        self._set_state(CheckState.RUNNING)
        self._tasks.start(self._run(turn, read_prompts, max_tokens))

    def stop(self) -> None:
        """End the check at its next boundary; what was found stays."""
        if self.state is CheckState.RUNNING and self._turn is not None:
            self._set_state(CheckState.STOPPING)
            self._tasks.start(self._turn.stop())

    def text(self) -> str:
        """The findings as text; empty before there are any."""
        if self.request is None or self.started is None:
            return ""
        return report(self.request, self.started, self.checked, self.verdict)

    async def close(self) -> None:
        """Stop following the check; whoever ends the engine process ends the check itself."""
        await self._tasks.cancel_all()

    async def _run(self, turn: EngineTurn, read_prompts: Callable[[], tuple[str, ...]], max_tokens: int) -> None:
        try:
            self.request = Check(turn.loaded.pair, await asyncio.to_thread(read_prompts), max_tokens)
            with working("checking the pair"):
                failed = await turn.follow(self.request, self._take)
        except MirrorError as error:
            failed = Failed(problem=error.problem)
        except Exception:
            self._set_state(CheckState.FAILED)
            raise
        finally:
            self._turn = None
            turn.end()
        self._end(failed)

    def _end(self, failed: Failed | None) -> None:
        if failed is None:
            self._set_state(CheckState.DONE)
        elif failed.problem.kind == "Cancelled":
            self._set_state(CheckState.STOPPED)
        else:
            self._set_state(CheckState.FAILED)
            self.failed.emit(failed.problem)

    def _take(self, event: Event) -> None:
        match event:
            case Progress():
                self.progress = event
            case CheckStarted():
                self.started = event
            case CheckedPrompt():
                self.checked.append(event)
            case Verdict():
                self.verdict = event
            case Failed():
                self._engine.observe(event)
        self.changed.emit()

    def _set_state(self, state: CheckState) -> None:
        self.state = state
        self.changed.emit()
