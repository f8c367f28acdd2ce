"""A race: the loaded pair answers one prompt plainly, then in another mode, with the same seed. No widgets.

One engine does one thing at a time, so the sides run one after the other; each is recorded with its own true clock.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial

from PySide6.QtCore import QObject, Signal

from app.engine import Engine
from app.engine_turn import EngineTurn
from app.language import tr
from app.race.recording import Recording
from app.tasks import Tasks
from core.activity import working
from core.errors import BadRequest, MirrorError
from core.protocol import MODES, ChatMessage, Done, Event, Failed, Generate, GenerateOptions, Mode, Step


class RaceState(StrEnum):
    """Where the race stands."""

    IDLE = "idle"
    LEFT = "left side"
    RIGHT = "right side"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class RaceModel(QObject):
    """Runs one race at a time, with the engine for itself."""

    state_changed = Signal()
    recorded = Signal()
    """The side under way has gone on."""
    failed = Signal(object)
    """`Problem`."""

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._tasks = Tasks()
        self._turn: EngineTurn | None = None
        self.state = RaceState.IDLE
        self.left = Recording("plain")
        self.right = Recording("auto")

    @property
    def running(self) -> bool:
        """Whether a side is under way."""
        return self.state in (RaceState.LEFT, RaceState.RIGHT, RaceState.STOPPING)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """What the loaded pair can race plain decoding with."""
        loaded = self._engine.status.loaded
        modes = tuple(mode for mode in MODES if mode in loaded.modes and mode != "plain") if loaded else ()
        return () if modes == ("auto",) else modes  # which has nothing then but plain decoding

    def start(self, prompt: str, options: GenerateOptions) -> None:
        """Race plain decoding with `options.mode`. What keeps it from that is told through `failed`."""
        if self.running:
            return
        try:
            if not prompt.strip():
                raise BadRequest(tr("A race needs a prompt."), tr("Write one."))
            if self._engine.status.loaded and not self.modes:
                raise BadRequest(tr("This pair has plain decoding only."), tr("Choose a pair with a draft."))
            turn = self._engine.take_turn(tr("A race"))
        except MirrorError as error:
            self.failed.emit(error.problem)
            return
        self._turn = turn
        self.left, self.right = Recording("plain"), Recording(options.mode)
        self._set_state(RaceState.LEFT)
        self._tasks.start(self._run(turn, prompt.strip(), options))

    def stop(self) -> None:
        """End the race at the next step; what was recorded stays."""
        if self.running and self.state is not RaceState.STOPPING and self._turn is not None:
            self._set_state(RaceState.STOPPING)
            self._tasks.start(self._turn.stop())

    async def close(self) -> None:
        """Stop following the race; whoever ends the engine process ends the answer itself."""
        await self._tasks.cancel_all()

    async def _run(self, turn: EngineTurn, prompt: str, options: GenerateOptions) -> None:
        failed: Failed | None = None
        try:
            with working("racing"):
                for recording, state in ((self.left, RaceState.LEFT), (self.right, RaceState.RIGHT)):
                    if turn.stopped:
                        break
                    self._set_state(state)
                    request = Generate(turn.loaded.pair, (ChatMessage("user", prompt),), _in_mode(recording, options))
                    failed = await turn.follow(request, partial(self._take, recording))
                    if failed is not None:
                        break
        except Exception:
            self._set_state(RaceState.FAILED)
            raise
        finally:
            self._turn = None
            turn.end()
        self._end(turn.stopped, failed)

    def _end(self, stopped: bool, failed: Failed | None) -> None:
        if failed is not None and failed.problem.kind != "Cancelled":
            self._set_state(RaceState.FAILED)
            self.failed.emit(failed.problem)
        else:
            self._set_state(RaceState.STOPPED if stopped else RaceState.DONE)

    def _take(self, recording: Recording, event: Event) -> None:
        match event:
            case Step():
                recording.add(event)
            case Done():
                recording.end(event)
            case Failed():
                self._engine.observe(event)
        self.recorded.emit()

    def _set_state(self, state: RaceState) -> None:
        if state is not self.state:
            self.state = state
            self.state_changed.emit()


def _in_mode(recording: Recording, options: GenerateOptions) -> GenerateOptions:
    return GenerateOptions(
        mode=recording.mode, max_tokens=options.max_tokens, temperature=options.temperature, seed=options.seed
    )
