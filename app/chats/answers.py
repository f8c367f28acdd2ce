"""The answers that are asked for in chats: each goes on and is kept, whichever chat the window shows."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from PySide6.QtCore import QObject, Signal

from app.chats.asking import Work, ask
from app.chats.keeper import Keeper
from app.chats.session import Session
from app.chats.writing import Writing
from app.generation import Answering, Generation, State
from app.tasks import Tasks
from core.chats import Message
from core.chats.conversation import turns
from core.errors import MirrorError
from core.protocol import GenerateOptions
from core.settings import Settings


class Answers(QObject):
    """Asks in the store and in the engine, and keeps what comes."""

    asked = Signal(object, bool)
    """The `Session`, and whether two messages came to its end (else its messages changed otherwise)."""
    refused = Signal(object)
    """The `Session`: the question could not be kept."""
    answered = Signal(object, object)
    """The `Session`, and the `Message` whose answer has ended; None where that is not among those shown."""
    kept = Signal()
    """An answer is in the store as a whole."""
    failed = Signal(object)
    """`Problem`."""

    def __init__(
        self, keeper: Keeper, generation: Generation, pair_name: Callable[[], str], parent: QObject | None = None
    ) -> None:
        """`pair_name`: of the pair that answers next, where that is known."""
        super().__init__(parent)
        self._keeper = keeper
        self._generation = generation
        self._pair_name = pair_name
        self._asking = Tasks()
        self._writing = Tasks()
        self._closing = False
        self._under_way: dict[Answering, tuple[Session, Writing]] = {}
        self.sessions: dict[int, Session] = {}
        """By chat: those that hold what the store does not."""
        generation.answer_ended.connect(self._on_ended)

    def activity(self, chat_id: int) -> State:
        """Whether the chat is being answered."""
        session = self.sessions.get(chat_id)
        if session is None or session.writing is None:
            return State.IDLE
        return self._generation.state_of(session.writing.answering)

    def session_of(self, answering: Answering) -> Session | None:
        """The chat that waits for this answer."""
        session, _ = self._under_way.get(answering, (None, None))
        return session

    def begin(self, session: Session, work: Work, settings: Settings) -> None:
        """Write what is asked, and have it answered. `settings`: for what the chat has no options of its own."""
        session.asking = True
        if pair := self._pair_name():
            session.options = msgspec.structs.replace(session.options, pair=pair)
        self._asking.start(self._ask(session, work, settings))

    def hold(self, session: Session) -> None:
        """Have it among `sessions` as long as it holds what the store does not."""
        if session.chat_id is None:
            return
        if session.must_stay:
            self.sessions[session.chat_id] = session
        elif self.sessions.get(session.chat_id) is session:
            del self.sessions[session.chat_id]

    def stop(self, session: Session) -> None:
        """Stop the chat's answer."""
        if session.writing is not None:
            self._generation.stop(session.writing.answering)

    async def close(self) -> None:
        """End the engine and keep what there is of the answers."""
        self._closing = True
        await self._generation.close()
        for session in self.sessions.values():
            for writing in session.unkept:
                writing.close()
        await self._asking.wait_all()
        await self._writing.wait_all()

    async def _ask(self, session: Session, work: Work, settings: Settings) -> None:
        try:
            chat, path = await self._keeper.call(lambda store: ask(store, session, work))
        except MirrorError as error:
            session.asking = False
            self.failed.emit(error.problem)
            self.refused.emit(session)
            return
        session.asking = False
        if self._closing:
            return  # the answer counts as interrupted
        before = [message.id for message in session.path]
        session.chat = chat
        session.take(path)
        answer = session.path[-1]
        answering = Answering(
            turns(session.path, session.options.system_prompt),
            _options(session, answer, settings),
            answer.content,
            answer.thinking,
        )
        writing = session.writing = Writing(self._keeper, answer.id, answering, answer.figures)
        self._under_way[answering] = session, writing
        self.hold(session)
        self.asked.emit(session, [message.id for message in session.path[:-2]] == before)
        self._writing.start(self._write(session, writing))
        self._generation.ask(answering)

    def _on_ended(self, answering: Answering) -> None:
        session, writing = self._under_way.pop(answering)
        message = session.end_answer(writing)
        writing.end()
        self.answered.emit(session, message)

    async def _write(self, session: Session, writing: Writing) -> None:
        await writing.run(self.failed.emit)
        session.unkept.remove(writing)
        self.hold(session)
        self.kept.emit()


def _options(session: Session, answer: Message, settings: Settings) -> GenerateOptions:
    options = GenerateOptions(
        mode=session.options.mode or settings.mode,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=answer.versions.index(answer.id),  # another version should be another answer
    )
    return session.options.sampling.applied_to(options)
