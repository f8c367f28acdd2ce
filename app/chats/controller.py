"""The chats as the window works with them: which one is open, what is asked in it, what the engine answers.

An answer belongs to its chat: it goes on and is kept whatever the window shows. Every call returns at once; the store
works in its own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from PySide6.QtCore import QObject, Signal

from app.chats.answers import Answers
from app.chats.asking import Work, another_answer, delete_empty, question, same_answer
from app.chats.drafts import Drafts
from app.chats.found import Found
from app.chats.keeper import Keeper
from app.chats.session import Session, attached_files
from app.generation import Generation, State
from app.tasks import Tasks
from core.chats import ChatOptions, ChatStore, Message
from core.chats.attach import TextFile, typed_text, with_files
from core.errors import MirrorError, MissingChat
from core.protocol import Mode
from core.settings import Settings

T = TypeVar("T")


class Chats(QObject):
    """The open chat, and those that are being answered."""

    opened = Signal()
    """Another chat is open, or it shows other messages than before."""
    found = Signal(object)
    """`Found`: what a search found in the open chat is to be shown."""
    asked = Signal(object, object)
    """Two `Message`s came to the open chat: the user's, and the answer that is waited for."""
    answered = Signal(object)
    """`Message`: the answer in the open chat has ended."""
    state_changed = Signal()
    """The open chat takes other actions than before."""
    options_changed = Signal()
    """The open chat has other options, not by the user's choice in it."""
    list_changed = Signal()
    failed = Signal(object)
    """`Problem` with the chats."""
    refused = Signal()
    """A message in the open chat could not be kept: it is its draft again."""

    def __init__(
        self, keeper: Keeper, generation: Generation, pair_name: Callable[[], str], parent: QObject | None = None
    ) -> None:
        """`pair_name`: of the pair that answers next, where that is known."""
        super().__init__(parent)
        self.keeper = keeper
        self.settings = Settings()
        """What new chats begin with."""
        self._generation = generation
        self._tasks = Tasks()
        self.answers = Answers(keeper, generation, pair_name, self)
        self._wanted: int | None = None  # the chat to be opened
        self._closing = False
        self.current = self._fresh()
        self._drafts = Drafts(keeper, self)
        self._drafts.chat_made.connect(self.list_changed)
        self._drafts.saved.connect(self.answers.hold)
        self._drafts.failed.connect(self.failed)
        self.answers.asked.connect(self._on_asked)
        self.answers.refused.connect(self._on_refused)
        self.answers.answered.connect(self._on_answered)
        self.answers.kept.connect(self.list_changed)
        self.answers.failed.connect(self.failed)
        generation.queue_changed.connect(self.state_changed)

    # ------------------------------------------------------------- what is known

    @property
    def state(self) -> State:
        """Where the open chat stands."""
        session = self.current
        if session.writing is not None:
            return self._generation.state_of(session.writing.answering)
        return State.WAITING if session.asking else State.IDLE

    @property
    def shows_current_answer(self) -> bool:
        """Whether the answer that the engine is writing belongs to the open chat."""
        writing = self.current.writing
        return writing is not None and writing.answering is self._generation.current

    def use_settings(self, settings: Settings) -> None:
        """The user has other settings now: new chats begin with them, and an open one in which nothing was done."""
        self.settings = settings
        if self._is_untouched(self.current):
            self.current.options = self._fresh().options
            self.options_changed.emit()

    # ------------------------------------------------------------- open and close

    async def start(self, last_chat: int | None) -> None:
        """Wait for the file, and open the chat that was open last, unless the user has begun another one."""
        first = self.current
        problem = await self.keeper.opened()
        self.list_changed.emit()
        if problem is not None:
            self.failed.emit(problem)
        if last_chat is not None and self.keeper.is_kept and self.current is first and self._is_untouched(first):
            await self._open(last_chat, quietly=True)

    def open(self, chat_id: int, found: Found | None = None) -> None:
        """Show a chat; `found`: with this message of it in sight."""
        if chat_id == self.current.chat_id and (found is None or self.current.find(found.message_id) is not None):
            if found is not None:
                self.found.emit(found)
            return
        self._wanted = chat_id
        self._tasks.start(self._open(chat_id, found=found))

    def new(self) -> None:
        """Show an empty chat. It is kept once something was written in it."""
        self._wanted = None
        self._show(self._fresh())

    def reread(self) -> None:
        """Show what another window has changed."""
        chat_id = self.current.chat_id
        if chat_id is not None and not self.current.must_stay:
            self._tasks.start(self._open(chat_id, quietly=True))

    async def close(self) -> None:
        """End the engine, keep what is typed and written, and close the file."""
        if self._closing:
            return
        self._closing = True
        await self._drafts.close()
        await self._tasks.wait_all()
        await self.answers.close()
        await self.keeper.close()

    async def _open(self, chat_id: int, quietly: bool = False, found: Found | None = None) -> None:
        shown = self.current
        session = self._held(chat_id)
        if session is None:
            try:
                session = await self.keeper.call(partial(_read_chat, chat_id=chat_id, found=found))
            except MirrorError as error:
                if not (quietly and isinstance(error, MissingChat)):
                    self.failed.emit(error.problem)
                self.list_changed.emit()
                return
            session = self._held(chat_id) or session
        if quietly and (self.current is not shown or not self._is_newer(session)):
            return
        if quietly or self._wanted == chat_id:
            self._show(session)
            if found is not None:
                self.found.emit(found)

    def _held(self, chat_id: int) -> Session | None:
        """The chat's session, where it holds what the store does not; also when that began while the chat was read."""
        session = self.current if self.current.chat_id == chat_id else self.answers.sessions.get(chat_id)
        return session if session is not None and session.must_stay else None

    def _is_newer(self, session: Session) -> bool:
        """Whether the open chat should be shown anew as `session`."""
        shown = self.current
        return shown.chat_id is None or (not shown.must_stay and session.path != shown.path)

    def _show(self, session: Session) -> None:
        if session.chat_id is not None and session.chat_id == self.current.chat_id:
            session.draft, session.files = self.current.draft, self.current.files  # the newest is what is typed here
        else:
            self._leave()
        self.current = session
        self.opened.emit()
        self.state_changed.emit()

    def _leave(self) -> None:
        """Keep what is typed in the open chat; a chat without anything in it is not left over."""
        session = self.current
        self._drafts.save()
        self.answers.hold(session)
        is_left_over = not (session.must_stay or session.path or session.draft.strip() or session.files)
        if session.chat_id is not None and is_left_over:
            chat_id = session.chat_id
            self._tasks.start(self._do(lambda store: delete_empty(store, chat_id)))

    def _fresh(self) -> Session:
        return Session(options=ChatOptions(self.settings.system_prompt, mode=self.settings.mode))

    def _is_untouched(self, session: Session) -> bool:
        return session.chat is None and session.accepts_message and not session.draft and not session.files

    # ------------------------------------------------------------- the open chat

    def send(self, text: str, files: Sequence[TextFile] = (), instead_of: int | None = None) -> bool:
        """Ask; `instead_of`: as another version of that message. Returns False where nothing can be asked now."""
        session, text = self.current, text.strip()
        if not (text or files) or not session.accepts_message:
            return False
        replaced = session.find(instead_of) if instead_of is not None else None
        last = session.path[-1].id if session.path else None
        files = tuple(files)
        content, attachments = with_files(text, files)
        if replaced is None:
            session.draft, session.files, session.kept_files = "", (), ()
        self._drafts.drop()
        session.sent = (text, files)
        self._begin(session, question(last, replaced, content, attachments))
        return True

    def regenerate(self, answer_id: int) -> None:
        """Answer the same message again: another version, unless there is nothing of this one.

        `answer_id` may be a message of the user that has no answer.
        """
        answer = self.current.find(answer_id)
        if answer is None or not self.current.accepts_message:
            return
        question_id = answer.id if answer.role == "user" else answer.parent_id
        assert question_id is not None
        is_last_answer = answer.role == "assistant" and answer is self.current.path[-1]
        is_empty = is_last_answer and not (answer.content or answer.thinking)
        self._begin(self.current, same_answer(answer_id) if is_empty else another_answer(question_id))

    def proceed(self, answer_id: int) -> None:
        """Continue an answer that was cut off."""
        if self.current.accepts_message:
            self._begin(self.current, same_answer(answer_id))

    def retry(self) -> None:
        """Answer again what failed; where nothing was asked, load again."""
        last = self.current.path[-1] if self.current.path else None
        if last is not None and last.role == "assistant" and last.state == "failed":
            self.regenerate(last.id)
        else:
            self._generation.load()

    def choose(self, message_id: int) -> None:
        """Show this version of a message, with what follows it."""
        session = self.current
        if not session.accepts_message or session.chat_id is None:
            return
        chat_id = session.chat_id

        def work(store: ChatStore) -> tuple[Message, ...]:
            store.messages.choose(message_id)
            return store.messages.path(chat_id)

        async def carry_out() -> None:
            path = await self._tried(work)
            if path is not None and session.accepts_message:
                session.take(path)
                if session is self.current:
                    self.opened.emit()

        self._tasks.start(carry_out())

    def stop(self) -> None:
        """Stop the answer in the open chat; where none is waited for, a load."""
        if self.current.writing is not None:
            self.answers.stop(self.current)
        elif self._generation.current is None:
            self._generation.stop()

    def text_of(self, message_id: int) -> tuple[str, tuple[TextFile, ...]]:
        """What the user typed and attached, to be edited."""
        message = self.current.find(message_id)
        if message is None:
            return "", ()
        return typed_text(message.content, message.attachments), attached_files(message)

    def note_draft(self, text: str) -> None:
        """This is typed and not sent."""
        self._drafts.note(self.current, text)

    def note_files(self, files: tuple[TextFile, ...]) -> None:
        """These are attached and not sent."""
        self._drafts.note_files(self.current, files)

    def set_mode(self, mode: Mode) -> None:
        """How the open chat is decoded from the next answer on."""
        self.set_options(msgspec.structs.replace(self.current.options, mode=mode))

    def set_thinking(self, on: bool) -> None:
        """Whether the model is to think before it answers in the open chat."""
        options = self.current.options
        sampling = msgspec.structs.replace(options.sampling, thinking=on)
        self.set_options(msgspec.structs.replace(options, sampling=sampling))

    def set_options(self, options: ChatOptions) -> None:
        """What the user wants for the open chat."""
        session = self.current
        session.options = options
        if session.chat_id is not None:
            chat_id = session.chat_id
            self._tasks.start(self._do(lambda store: store.set_options(chat_id, options)))

    # ------------------------------------------------------------- any chat

    def rename(self, chat_id: int, title: str) -> None:
        """Give a title; an empty one returns to the automatic title."""
        self._tasks.start(self._do(lambda store: store.rename(chat_id, title), chat_id))

    def pin(self, chat_id: int, pinned: bool) -> None:
        """Keep a chat at the top of the list, or not any more."""
        self._tasks.start(self._do(lambda store: store.pin(chat_id, pinned)))

    def delete(self, chat_id: int) -> None:
        """Take a chat out of the list; `restore` brings it back."""
        session = self.current if self.current.chat_id == chat_id else self.answers.sessions.get(chat_id)
        if session is not None:
            self.answers.stop(session)
        self._tasks.start(self._do(lambda store: store.delete(chat_id)))
        if session is self.current:
            self.new()

    def restore(self, chat_id: int) -> None:
        """Undo `delete`, and show the chat; an empty one is gone again where the user has moved on meanwhile."""
        self._wanted = chat_id

        async def carry_out() -> None:
            await self._do(lambda store: store.restore(chat_id))
            await self._open(chat_id)
            if chat_id not in (self.current.chat_id, self._wanted):
                await self._do(lambda store: delete_empty(store, chat_id))

        self._tasks.start(carry_out())

    # ------------------------------------------------------------- what happens

    def _begin(self, session: Session, work: Work) -> None:
        self.answers.begin(session, work, self.settings)
        self.state_changed.emit()

    def _on_asked(self, session: Session, at_the_end: bool) -> None:
        session.sent = ("", ())
        if session is self.current:
            if at_the_end:
                self.asked.emit(*session.path[-2:])
            else:
                self.opened.emit()
        self.list_changed.emit()

    def _on_refused(self, session: Session) -> None:
        (text, files), session.sent = session.sent, ("", ())
        session.draft, session.files = session.draft or text, session.files or files
        self.state_changed.emit()
        if session is self.current:
            self.refused.emit()

    def _on_answered(self, session: Session, message: Message | None) -> None:
        if session is self.current and message is not None:
            self.answered.emit(message)
        self.state_changed.emit()

    async def _do(self, work: Callable[[ChatStore], object], chat_id: int | None = None) -> None:
        """Change something in the store that the list shows; `chat_id`: whose title has changed."""
        await self._tried(work)
        if chat_id is not None and chat_id == self.current.chat_id:
            chat = await self._tried(lambda store: store.get(chat_id))
            if chat is not None and chat_id == self.current.chat_id:
                self.current.chat = chat
                self.state_changed.emit()
        self.list_changed.emit()

    async def _tried(self, work: Callable[[ChatStore], T]) -> T | None:
        """What `work` returns; None where it fails, which is told."""
        try:
            return await self.keeper.call(work)
        except MirrorError as error:
            self.failed.emit(error.problem)
            return None


def _read_chat(store: ChatStore, chat_id: int, found: Found | None) -> Session:
    """The chat with its messages; where the one that was found is not among those chosen last, it is chosen."""
    path = store.messages.path(chat_id)
    if found is not None and all(message.id != found.message_id for message in path):
        store.messages.choose(found.message_id)
        path = store.messages.path(chat_id)
    chat, files = store.get(chat_id), store.draft_files(chat_id)
    return Session(chat, chat.options, path, chat.draft, files, kept_files=files)
