"""One chat: its messages and the state of the answer being written. No widgets."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from app.conversation import Conversation
from app.engine import Engine, PairState
from app.tasks import Tasks
from core.activity import working
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
    Mode,
    ModeChanged,
    Prefill,
    Progress,
    Request,
    Step,
    Unload,
)

_log = logging.getLogger(__name__)


class State(StrEnum):
    """Where the chat stands."""

    IDLE = "idle"
    LOADING = "loading"
    PREFILL = "prefill"
    ANSWERING = "answering"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True)
class Answer:
    """How an answer ended: with its figures, with a problem, or (neither) stopped before it began."""

    text: str
    done: Done | None = None
    problem: Problem | None = None


class Generation(QObject):
    """Sends what the user asks and follows the answer.

    One request is under way at a time. A message sent while the pair loads waits for it.
    """

    state_changed = Signal(object)
    """`State`."""
    message_added = Signal(object)
    """`ChatMessage` of the user."""
    answer_started = Signal()
    prefilled = Signal(object)
    """`Prefill`."""
    stepped = Signal(object)
    """`Step`."""
    text_added = Signal(str)
    """The next piece of the answer."""
    thinking_added = Signal(str)
    """The next piece of the model's thinking, which is no part of the answer."""
    answer_ended = Signal(object)
    """`Answer`."""
    mode_changed = Signal(object)
    """`ModeChanged`: the answer goes on in another mode."""
    failed = Signal(object)
    """`Problem`."""
    cleared = Signal()

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
        self._mode: Mode = "auto"
        self.conversation = Conversation()
        self.system_prompt = ""
        """Told to the model before the first message."""
        self.options = GenerateOptions()
        """Of the next answer, but for the mode."""
        self._text: str | None = None  # of the answer that is awaited; None where none is
        self._call: Call | None = None
        self._stop_asked = False
        self._forced = False

    # ------------------------------------------------------------- what is known

    @property
    def state(self) -> State:
        """Where the chat stands."""
        return self._state

    @property
    def mode(self) -> Mode:
        """The mode of the next answer."""
        return self._mode

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._state not in (State.IDLE, State.FAILED)

    @property
    def accepts_message(self) -> bool:
        """Whether `send` would take a message now."""
        return not self.busy or (self._state is State.LOADING and self._text is None)

    # ------------------------------------------------------------- what is asked

    def set_mode(self, mode: Mode) -> None:
        """Choose the mode of the next answer."""
        self._mode = mode

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

    def send(self, text: str) -> bool:
        """Add the user's message and answer it. Returns False where no message is taken now."""
        text = text.strip()
        if not text or not self.accepts_message:
            return False
        message = ChatMessage("user", text)
        self.conversation.add(message)
        self.message_added.emit(message)
        self._await_answer()
        return True

    def retry(self) -> None:
        """After a failure: answer the last message again, or load again where there is none."""
        if self._state is not State.FAILED:
            return
        self.conversation.drop_last_answer()
        if self.conversation.messages:
            self._await_answer()
        else:
            self.load()

    def stop(self) -> None:
        """Stop what is under way, in whatever phase. A second call ends the engine process by force."""
        if not self.busy:
            return
        if self._state is not State.STOPPING:
            self._stop_asked = True
            self._set_state(State.STOPPING)
            if self._call is not None:
                self._tasks.start(self._call.cancel())
        elif not self._forced:
            self._forced = True
            self._tasks.start(self._engine.end_worker())

    def clear(self) -> None:
        """Begin a new conversation. An answer under way is stopped and dropped."""
        self.conversation.clear()
        self._text = None
        answering = self._state is State.PREFILL or (self._call and isinstance(self._call.request, Generate))
        if answering and self._state is not State.STOPPING:
            self.stop()
        elif self._state is State.FAILED:
            self._set_state(State.IDLE)
        self.cleared.emit()

    async def close(self) -> None:
        """End everything, the engine process included."""
        await self._tasks.cancel_all()
        await self._engine.end_worker()

    # -------------------------------------------------------------- what happens

    def _await_answer(self) -> None:
        self._text = ""
        self.answer_started.emit()
        if not self.busy:  # else the load under way leads to it
            self._go_on()

    def _go_on(self) -> None:
        if self._switching:
            self._begin(State.LOADING, self._load())
        elif self._text is None:
            self._set_state(State.IDLE)
        elif self._engine.status.state is PairState.READY:
            self._begin(State.PREFILL, self._answer())
        else:
            self._begin(State.LOADING, self._load())

    def _begin(self, state: State, work: Coroutine[Any, Any, Problem | None]) -> None:
        self._stop_asked = self._forced = False
        self._set_state(state)
        self._tasks.start(self._carry_out(work))

    async def _carry_out(self, work: Coroutine[Any, Any, Problem | None]) -> None:
        try:
            with working("loading or answering"):
                problem = await work
        except Exception as error:
            self._fail(InternalError("Something went wrong in the window.", "Try again.", repr(error)).problem)
            raise
        finally:
            self._call = None
        if problem is not None:
            self._fail(problem)
        elif self._stop_asked:
            self._end_answer(Answer(self._text or ""))
            self._set_state(State.IDLE)
        else:
            self._go_on()
        if self._switching:
            self.load()

    def _fail(self, problem: Problem) -> None:
        self._end_answer(Answer(self._text or "", problem=problem))
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

    async def _answer(self) -> Problem | None:
        loaded = self._engine.status.loaded
        assert loaded is not None
        assert self._pair is not None
        mode = self._mode if self._mode in loaded.modes else loaded.modes[0]
        system = (ChatMessage("system", self.system_prompt),) if self.system_prompt.strip() else ()
        options = msgspec.structs.replace(self.options, mode=mode)
        request = Generate(self._pair, system + self.conversation.for_request(), options)
        problem: Problem | None = None
        async for event in self._follow(request):
            self._take(event)
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

    def _take(self, event: Event) -> None:
        if self._text is None:
            return  # the conversation it belongs to is gone
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
                self.thinking_added.emit(event.thinking)
            self._add_text(event.text)
        elif isinstance(event, ModeChanged):
            self.mode_changed.emit(event)
        elif isinstance(event, Done):
            self._take_done(event)

    def _take_done(self, done: Done) -> None:
        text = self._text or ""
        if done.text.startswith(text):
            self._add_text(done.text[len(text) :])  # what was held back until the end was sure
        else:
            # Without the texts: the log, which crash reports quote, holds nothing of a chat.
            _log.error(
                "The steps gave %d characters that the whole answer (%d) does not have.", len(text), len(done.text)
            )
        self._end_answer(Answer(done.text, done))

    def _add_text(self, text: str) -> None:
        if text and self._text is not None:
            self._text += text
            self.text_added.emit(text)

    def _end_answer(self, answer: Answer) -> None:
        if self._text is None:
            return
        self._text = None
        if answer.text:
            self.conversation.add(ChatMessage("assistant", answer.text))
        self.answer_ended.emit(answer)

    def _set_phase(self, state: State) -> None:
        if not self._stop_asked:
            self._set_state(state)

    def _set_state(self, state: State) -> None:
        if state is not self._state:
            self._state = state
            self.state_changed.emit(state)
