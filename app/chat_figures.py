"""Which figures the window shows: those of the open chat, of an answer under way or of a kept one."""

from __future__ import annotations

import time
from weakref import WeakKeyDictionary

from PySide6.QtCore import QObject, Signal

from app.chats.controller import Chats
from app.chats.session import Session
from app.generation import Answering, Generation
from app.stats.figures import FiguresModel
from core.protocol import Heartbeat, Loaded, ModeChanged, Step


class ChatFigures(QObject):
    """Collects the figures of each chat that is open or being answered."""

    changed = Signal()

    def __init__(self, chats: Chats, generation: Generation, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._chats = chats
        self._loaded: Loaded | None = None
        self._beat: Heartbeat | None = None
        self._models: WeakKeyDictionary[Session, FiguresModel] = WeakKeyDictionary()
        self._answer_ids: WeakKeyDictionary[Session, int] = WeakKeyDictionary()
        """Of the answers whose steps the models have."""
        self._live: FiguresModel | None = None  # of the answer under way,
        self._answering: Answering | None = None  # which is this one
        chats.opened.connect(self._on_opened)
        generation.answer_started.connect(self._on_started)
        generation.stepped.connect(self._on_step)
        generation.mode_changed.connect(self._on_mode_changed)
        generation.answer_ended.connect(self._on_ended)

    @property
    def shown(self) -> FiguresModel:
        """Of the open chat."""
        return self._of(self._chats.current)

    def show_answer(self, message_id: int) -> None:
        """Show the figures of this answer of the open chat, until one ends or another is chosen."""
        session = self._chats.current
        message = session.find(message_id)
        if message is not None and message.figures is not None:
            knows_steps = self._answer_ids.get(session) == message_id
            self.shown.show_saved(None if knows_steps else message.figures)
            self.changed.emit()

    def set_loaded(self, loaded: Loaded | None) -> None:
        """A pair is ready, or gone."""
        self._loaded = loaded
        for model in self._models.values():
            model.loaded(loaded, time.monotonic())
        self.changed.emit()

    def set_memory(self, beat: Heartbeat | None) -> None:
        """What memory the engine process takes and the machine has left; None once the process has ended."""
        self._beat = beat
        for model in self._models.values():
            model.memory(beat)
        self.changed.emit()

    def _of(self, session: Session) -> FiguresModel:
        model = self._models.get(session)
        if model is None:
            model = self._models[session] = FiguresModel()
            model.loaded(self._loaded, time.monotonic())
            model.memory(self._beat)
            self._fill(session, model)
        return model

    def _fill(self, session: Session, model: FiguresModel) -> None:
        """Show what was kept with the chat."""
        answers = [message.figures for message in session.path if message.figures is not None]
        model.open_chat(answers)
        model.show_saved(answers[-1] if answers else None)
        self._answer_ids.pop(session, None)

    # ------------------------------------------------------------- what happens

    def _on_opened(self) -> None:
        if self.shown is not self._live:  # else all of it is known already
            self._fill(self._chats.current, self.shown)
        self.changed.emit()

    def _on_started(self, answering: Answering) -> None:
        session = self._chats.answers.session_of(answering)
        if session is None or session.writing is None:
            return
        self._live, self._answering = self._of(session), answering
        self._live.begin(time.monotonic(), answering.options.mode)
        self._answer_ids[session] = session.writing.answer_id
        self.changed.emit()

    def _on_step(self, step: Step) -> None:
        if self._live is not None:
            self._live.step(step, time.monotonic())
            self._tell(self._live)

    def _on_mode_changed(self, change: ModeChanged) -> None:
        if self._live is not None:
            self._live.mode_changed(change)

    def _on_ended(self, answering: Answering) -> None:
        model = self._live
        if model is None or answering is not self._answering:
            return
        self._live = None
        if answering.ending is not None and answering.ending.done is not None:
            model.done(answering.ending.done)
            model.show_saved(None)
        self._tell(model)

    def _tell(self, model: FiguresModel) -> None:
        if model is self.shown:
            self.changed.emit()
