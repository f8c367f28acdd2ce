"""The engine's work for all chats: one request at a time, answers in the order in which they were asked for.

No widgets, and no chats either: who asks keeps the `Answering` and follows it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from app.engine import Engine
from app.language import tr
from app.tasks import Tasks
from core.activity import working
from core.chats.model import EndState
from core.client import Call
from core.errors import InternalError, MirrorError, Problem
from core.pairs import Pair
from core.protocol import (
    ChatMessage,
    Done,
    Event,
    Failed,
    Generate,
    GenerateOptions,
    Load,
    Loaded,
    ModeChanged,
    Prefill,
    Progress,
    Request,
    Step,
    Unload,
)

_log = logging.getLogger(__name__)
_USUAL = GenerateOptions()


class State(StrEnum):
    """Where the engine stands, or a chat (for which it may also be `WAITING`)."""

    IDLE = "idle"
    WAITING = "waiting"
    """The answer to another chat comes first."""
    LOADING = "loading"
    PREFILL = "prefill"
    ANSWERING = "answering"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True)
class Ending:
    """How an answer ended."""

    state: EndState
    done: Done | None = None
    """Its figures; None where it ended before they were known."""
    problem: Problem | None = None
    """Why a failed one failed."""


class Answering:
    """An answer that was asked for, and what there is of it. It goes on whatever the window shows."""

    def __init__(
        self,
        messages: tuple[ChatMessage, ...],
        options: GenerateOptions = _USUAL,
        text: str = "",
        thinking: str = "",
    ) -> None:
        """`text` and `thinking`: of an answer that is continued."""
        self.messages = messages
        self.options = options
        self.text = text
        self.thinking = thinking
        self.new_text = ""
        """What was added to `text`."""
        self.ending: Ending | None = None
        """None until it has ended."""


class Generation(QObject):
    """Sends what is asked and follows the answer.

    One request is under way at a time: answers wait for a load, and for the answers asked for before. The signals
    about an answer are about `current`.
    """

    state_changed = Signal(object)
    """`State`."""
    queue_changed = Signal()
    """Other answers are waited for than before."""
    answer_started = Signal(object)
    """`Answering`: it is the one that is waited for now."""
    prefilled = Signal(object)
    """`Prefill`."""
    stepped = Signal(object)
    """`Step`."""
    text_added = Signal(str)
    """The next piece of the answer."""
    thinking_added = Signal(str)
    """The next piece of the model's thinking, which is no part of the answer."""
    answer_ended = Signal(object)
    """`Answering`, with its ending; it is `current` no more."""
    mode_changed = Signal(object)
    """`ModeChanged`: the answer goes on in another mode."""
    failed = Signal(object)
    """`Problem`."""

    def __init__(self, engine: Engine, choose_pair: Callable[[], Pair], parent: QObject | None = None) -> None:
        """`choose_pair` names the pair at each load; it may raise a `MirrorError`."""
        super().__init__(parent)
        self._engine = engine
        self._choose_pair = choose_pair
        self._pair: Pair | None = None
        self._chosen: Pair | None = None
        self._check = False  # the chosen pair, once it is loaded
        self._switching = False  # a chosen pair waits to be loaded
        self._tasks = Tasks()
        self._state = State.IDLE
        self._queue: list[Answering] = []
        self._call: Call | None = None
        self._stop_asked = False
        self._stopped: Answering | None = None  # what the stop was for
        self._forced = False
        self._ending: asyncio.Task[None] | None = None  # of the engine process, by force

    # ------------------------------------------------------------- what is known

    @property
    def state(self) -> State:
        """Where the engine stands."""
        return self._state

    @property
    def current(self) -> Answering | None:
        """The answer that is waited for."""
        return self._queue[0] if self._queue else None

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._state not in (State.IDLE, State.FAILED)

    def state_of(self, answering: Answering) -> State:
        """Where this answer stands."""
        if answering is self.current:
            return self._state
        return State.WAITING if answering in self._queue else State.IDLE

    # ------------------------------------------------------------- what is asked

    def load(self) -> None:
        """Load the pair, so that the first answer need not wait for it."""
        if not self.busy:
            self._begin(State.LOADING, self._load())

    def use_pair(self, pair: Pair, *, check: bool = False) -> None:
        """Load another pair, and `check` it then; the chat stays.

        Another load is given up for it, an answer under way ends first.
        """
        self._chosen, self._check = pair, check
        if not self.busy:
            self.load()
            return
        self._switching = True
        if self._call is not None and isinstance(self._call.request, Load):
            self._tasks.start(self._call.cancel())

    def unload(self) -> None:
        """Free the pair's memory; the next message loads it again."""
        if not self.busy:
            self._begin(State.LOADING, self._unload())

    def end_engine(self) -> None:
        """End the idle engine process; the next message starts one, which has other settings then."""
        if not self.busy:
            self._begin(State.LOADING, self._end_engine())

    def ask(self, answering: Answering) -> None:
        """Have this answered, once what was asked before is."""
        self._queue.append(answering)
        self.queue_changed.emit()
        if answering is self.current:
            self.answer_started.emit(answering)
        if not self.busy:  # else what is under way leads to it
            self._go_on()

    def stop(self, answering: Answering | None = None) -> None:
        """Stop this answer, or a load with all that waits for it, in whatever phase.

        A second call for what is under way ends the engine process by force.
        """
        if answering is not None and (answering not in self._queue or self._only_waits(answering)):
            self._end_answer(answering, Ending("stopped"))
        elif self.busy and self._state is not State.STOPPING:
            self._stop_asked, self._stopped = True, self.current
            if answering is None:
                for other in self._queue[1:]:
                    self._end_answer(other, Ending("stopped"))
            self._set_state(State.STOPPING)
            if self._call is not None:
                self._tasks.start(self._call.cancel())
        elif self.busy and not self._forced:
            self._forced = True
            self._ending = self._tasks.start(self._engine.end_worker())

    async def close(self) -> None:
        """End everything, the engine process included; answers end as interrupted."""
        await self._tasks.cancel_all()
        while self._queue:
            self._end_answer(self._queue[-1], Ending("interrupted"))
        await self._engine.end_worker()

    # -------------------------------------------------------------- what happens

    def _only_waits(self, answering: Answering) -> bool:
        """Whether it can be left out without stopping what the others wait for."""
        return answering is not self.current or (self._state is State.LOADING and len(self._queue) > 1)

    def _go_on(self) -> None:
        if self._switching:
            self._begin(State.LOADING, self._load())
        elif not self._queue:
            if self._state is not State.FAILED:
                self._set_state(State.IDLE)
        elif (loaded := self._engine.status.loaded) is not None:
            self._begin(State.PREFILL, self._answer(self._queue[0], loaded))
        else:
            self._begin(State.LOADING, self._load())

    def _begin(self, state: State, work: Coroutine[Any, Any, Problem | None]) -> None:
        self._stop_asked = self._forced = False
        self._ending = None
        self._set_state(state)
        self._tasks.start(self._carry_out(work, state is State.LOADING))

    async def _carry_out(self, work: Coroutine[Any, Any, Problem | None], loads: bool) -> None:
        try:
            with working("loading or answering"):
                problem = await work
                if self._ending is not None:  # else the next request would meet a process that ends
                    await self._ending
        except Exception as error:
            self._fail(
                InternalError(tr("Something went wrong in the window."), tr("Try again."), repr(error)).problem, loads
            )
            self._go_on()
            raise
        finally:
            self._call = None
        if problem is not None:
            self._fail(problem, loads)
        elif self._stop_asked:
            if self._stopped is not None:
                self._end_answer(self._stopped, Ending("stopped"))
            self._set_state(State.IDLE)
        self._go_on()

    def _fail(self, problem: Problem, all_of_them: bool) -> None:
        """The request failed: without a pair none of the answers can be given."""
        for answering in reversed(self._queue[:] if all_of_them else self._queue[:1]):
            self._end_answer(answering, Ending("failed", problem=problem))
        self._set_state(State.FAILED)
        self.failed.emit(problem)

    async def _load(self) -> Problem | None:
        self._switching = False
        try:
            self._pair = self._chosen or self._choose_pair()
        except MirrorError as error:
            self._engine.fail(error.problem)
            return error.problem
        self._engine.begin_loading(self._pair)
        check, self._check = self._check, False
        problem: Problem | None = None
        async for event in self._follow(Load(self._pair, check)):
            problem = self._problem_of(event)
        return problem

    async def _unload(self) -> Problem | None:
        problem: Problem | None = None
        async for event in self._follow(Unload()):
            problem = self._problem_of(event)
        return problem

    async def _end_engine(self) -> None:
        await self._engine.end_worker()

    async def _answer(self, answering: Answering, loaded: Loaded) -> Problem | None:
        """`loaded`: when this was decided; a new process loads it again."""
        assert self._pair is not None
        options = answering.options
        if options.mode not in loaded.modes:
            options = msgspec.structs.replace(options, mode=loaded.modes[0])
        problem: Problem | None = None
        async for event in self._follow(Generate(self._pair, answering.messages, options)):
            self._take(event, answering)
            problem = self._problem_of(event)
        return problem

    async def _follow(self, request: Request) -> AsyncIterator[Event]:
        self._call = await self._engine.send(request)
        # Before there was anything to cancel.
        if self._stop_asked or (self._switching and isinstance(request, Load)):
            await self._call.cancel()
        async for event in self._call:
            self._engine.observe(event)
            yield event

    def _problem_of(self, event: Event) -> Problem | None:
        if not isinstance(event, Failed) or event.problem.kind == "Cancelled" or self._forced:
            return None
        return event.problem

    def _take(self, event: Event, answering: Answering) -> None:
        if isinstance(event, Progress):
            self._set_phase(State.LOADING)
        elif isinstance(event, Loaded):
            self._set_phase(State.PREFILL)
        elif isinstance(event, Prefill):
            self._set_phase(State.PREFILL)
            self.prefilled.emit(event)
        elif isinstance(event, Step):
            self._set_phase(State.ANSWERING)
            self.stepped.emit(event)
            if event.thinking:
                answering.thinking += event.thinking
                self.thinking_added.emit(event.thinking)
            self._add_text(event.text, answering)
        elif isinstance(event, ModeChanged):
            self.mode_changed.emit(event)
        elif isinstance(event, Done):
            self._take_done(event, answering)

    def _take_done(self, done: Done, answering: Answering) -> None:
        known = answering.new_text
        if done.text.startswith(known):
            self._add_text(done.text[len(known) :], answering)  # what was held back until the end was sure
        else:
            # Without the texts: the log, which crash reports quote, holds nothing of a chat.
            _log.error(
                "The steps gave %d characters that the whole answer (%d) does not have.", len(known), len(done.text)
            )
        self._end_answer(answering, Ending("stopped" if done.finish_reason == "cancelled" else "complete", done))

    def _add_text(self, text: str, answering: Answering) -> None:
        if text:
            answering.text += text
            answering.new_text += text
            self.text_added.emit(text)

    def _end_answer(self, answering: Answering, ending: Ending) -> None:
        if answering not in self._queue:
            return  # its end was told before
        was_current = answering is self.current
        self._queue.remove(answering)
        answering.ending = ending
        self.answer_ended.emit(answering)
        self.queue_changed.emit()
        if was_current and self._queue:
            self.answer_started.emit(self._queue[0])

    def _set_phase(self, state: State) -> None:
        if not self._stop_asked:
            self._set_state(state)

    def _set_state(self, state: State) -> None:
        if state is not self._state:
            self._state = state
            self.state_changed.emit(state)
