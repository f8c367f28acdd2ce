"""What is typed or attached and not sent: kept with its chat a moment after the last key."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from app.chats.asking import in_chat
from app.chats.keeper import Keeper
from app.chats.session import Session
from app.tasks import Tasks
from core.chats import Chat, ChatStore
from core.chats.attach import TextFile
from core.errors import MirrorError

DRAFT_MS = 500


class Drafts(QObject):
    """Saves the draft of the open chat; a chat begins to exist with the first one."""

    chat_made = Signal()
    saved = Signal(object)
    """`Session`: the store holds what was typed and attached in it."""
    failed = Signal(object)
    """`Problem`."""

    def __init__(self, keeper: Keeper, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._keeper = keeper
        self._tasks = Tasks()
        self._session = Session()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(DRAFT_MS)
        self._timer.timeout.connect(self.save)

    def note(self, session: Session, text: str) -> None:
        """This is typed in the chat now."""
        if text != session.draft:
            session.draft = text
            self._session = session
            self._timer.start()

    def note_files(self, session: Session, files: tuple[TextFile, ...]) -> None:
        """These are attached in the chat now."""
        if files != session.files:
            session.files = files
            self._session = session
            self._timer.start()

    def drop(self) -> None:
        """What was typed has been sent."""
        self._timer.stop()

    def save(self) -> None:
        """Keep what was noted last, without waiting any longer."""
        self._timer.stop()
        session = self._session
        known = session.chat.draft if session.chat else ""
        is_new = session.draft != known or session.files != session.kept_files
        if is_new and (session.chat is not None or session.draft.strip() or session.files):
            self._tasks.start(self._save(session, session.draft, session.files))

    async def close(self) -> None:
        """Save, and wait for it."""
        self.save()
        await self._tasks.wait_all()

    async def _save(self, session: Session, text: str, files: tuple[TextFile, ...]) -> None:
        has_other_files = files != session.kept_files

        def work(store: ChatStore) -> Chat:
            with in_chat(store, session) as chat:
                store.save_draft(chat.id, text)
                if has_other_files:  # they may be large
                    store.save_draft_files(chat.id, files)
                return store.get(chat.id)

        is_new = session.chat is None
        try:
            session.chat = await self._keeper.call(work)
        except MirrorError as error:
            self.failed.emit(error.problem)
        else:
            session.kept_files = files
            self.saved.emit(session)
            if is_new:
                self.chat_made.emit()
