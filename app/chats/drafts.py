"""What is typed and not sent: kept with its chat a moment after the last key."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from app.chats.asking import made
from app.chats.keeper import Keeper
from app.chats.session import Session
from app.tasks import Tasks
from core.chats import Chat, ChatStore
from core.errors import MirrorError

DRAFT_MS = 500


class Drafts(QObject):
    """Saves the draft of the open chat; a chat begins to exist with the first one."""

    chat_made = Signal()
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

    def drop(self) -> None:
        """What was typed has been sent."""
        self._timer.stop()

    def save(self) -> None:
        """Keep what was noted last, without waiting any longer."""
        self._timer.stop()
        session = self._session
        known = session.chat.draft if session.chat else ""
        if session.draft != known and (session.chat is not None or session.draft.strip()):
            self._tasks.start(self._save(session, session.draft))

    async def close(self) -> None:
        """Save, and wait for it."""
        self.save()
        await self._tasks.wait_all()

    async def _save(self, session: Session, text: str) -> None:
        def work(store: ChatStore) -> Chat:
            chat_id = made(store, session).id
            store.save_draft(chat_id, text)
            return store.get(chat_id)

        is_new = session.chat is None
        try:
            session.chat = await self._keeper.call(work)
        except MirrorError as error:
            self.failed.emit(error.problem)
        else:
            if is_new:
                self.chat_made.emit()
