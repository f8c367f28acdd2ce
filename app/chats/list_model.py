"""The list of chats: read page by page as it is scrolled, or what a search found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from functools import partial
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from app.chats.found import Found
from app.chats.keeper import Keeper
from app.generation import State
from app.language import tr
from app.tasks import Tasks
from core.chats import ChatStore, ChatSummary, Hit, Piece
from core.chats.days import group_of
from core.errors import MirrorError

PAGE = 50
Index = QModelIndex | QPersistentModelIndex
_GROUPS = {
    "pinned": tr("Pinned"),
    "today": tr("Today"),
    "yesterday": tr("Yesterday"),
    "previous 7 days": tr("Previous 7 days"),
    "older": tr("Older"),
}
_ACTIVITY = {State.IDLE: "", State.FAILED: "", State.WAITING: "waiting"}
_ACTIVITY_WORDS = {"": "", "waiting": tr("waiting"), "writing": tr("writing")}


class Role(IntEnum):
    """What a row tells besides its title."""

    CHAT = Qt.ItemDataRole.UserRole + 1
    """`ChatSummary`."""
    GROUP = Qt.ItemDataRole.UserRole + 2
    """The heading above the row; empty where it is that of the row before."""
    TITLE = Qt.ItemDataRole.UserRole + 3
    """The title's `Piece`s, with what was looked for."""
    SNIPPET = Qt.ItemDataRole.UserRole + 4
    """`Piece`s of the message that was found; empty without a search."""
    ACTIVITY = Qt.ItemDataRole.UserRole + 5
    """`writing` or `waiting` while the chat is being answered, else empty."""
    FOUND = Qt.ItemDataRole.UserRole + 6
    """`Found` of the message that a search found; None without one."""


@dataclass(frozen=True)
class Row:
    """One line."""

    chat: ChatSummary
    title: tuple[Piece, ...]
    snippet: tuple[Piece, ...] = ()
    found: Found | None = None


class ChatListModel(QAbstractListModel):
    """Rows of the store, kept right row by row so that the view neither jumps nor forgets what is chosen."""

    refreshed = Signal()
    """The rows are as the store has them."""
    rename_requested = Signal(int, str)
    failed = Signal(object)
    """`Problem`."""

    def __init__(
        self, keeper: Keeper, activity: Callable[[int], State] = lambda _: State.IDLE, parent: QObject | None = None
    ) -> None:
        """`activity` says whether a chat is being answered."""
        super().__init__(parent)
        self._keeper = keeper
        self._activity = activity
        self._tasks = Tasks()
        self._rows: list[Row] = []
        self._is_whole = False  # all chats are among the rows
        self._reading = False
        self._again = False
        self._closed = False
        self.search_text = ""

    # ----------------------------------------------------------- what the view asks

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802
        """Rows that were read."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """See `Role`."""
        row = self._rows[index.row()]
        title = row.chat.title or tr("New chat")
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.EditRole | Qt.ItemDataRole.ToolTipRole:
                return title
            case Qt.ItemDataRole.AccessibleTextRole:
                pinned, doing = tr("pinned") if row.chat.pinned else "", _ACTIVITY_WORDS[self._doing(row)]
                return ", ".join(filter(None, (title, pinned, doing)))
            case Role.CHAT:
                return row.chat
            case Role.GROUP:
                return self._heading(index.row())
            case Role.TITLE:
                return row.title if row.chat.title else (Piece(title, False),)
            case Role.SNIPPET:
                return row.snippet
            case Role.ACTIVITY:
                return self._doing(row)
            case Role.FOUND:
                return row.found
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:  # noqa: N802
        """Ask for a new title."""
        if role != Qt.ItemDataRole.EditRole or str(value) == self.data(index):
            return False
        self.rename_requested.emit(self._rows[index.row()].chat.id, str(value))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Titles can be edited."""
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsEditable if index.isValid() else flags

    def canFetchMore(self, parent: Index) -> bool:  # noqa: N802
        """Whether the store has more."""
        return not parent.isValid() and not self._is_whole and not self._reading

    def fetchMore(self, parent: Index) -> None:  # noqa: N802
        """Read the next page."""
        if self.canFetchMore(parent):
            self._start(len(self._rows) + PAGE)

    # ----------------------------------------------------------- what the owner asks

    def refresh(self) -> None:
        """Read anew as many rows as there are."""
        self._start(max(len(self._rows), PAGE))

    def search(self, text: str) -> None:
        """Show what a search finds; all chats for an empty text."""
        text = text.strip()
        if text != self.search_text:
            self.search_text = text
            self._start(PAGE)

    def show_activity(self) -> None:
        """Other chats are being answered than before."""
        if self._rows:
            self.dataChanged.emit(self.index(0), self.index(len(self._rows) - 1), [Role.ACTIVITY])

    def row_of(self, chat_id: int | None) -> int:
        """Where a chat stands; -1 where it is not among the rows."""
        return next((number for number, row in enumerate(self._rows) if row.chat.id == chat_id), -1)

    async def close(self) -> None:
        """Read no more."""
        self._closed = True
        await self._tasks.wait_all()

    # ----------------------------------------------------------- reading

    def _start(self, count: int) -> None:
        if self._closed:
            return
        if self._reading:
            self._again = True
            return
        self._reading = True
        self._tasks.start(self._read(count))

    async def _read(self, count: int) -> None:
        wanted = self.search_text
        try:
            await self._keeper.opened()
            rows = await self._keeper.call(partial(_read_rows, wanted=wanted, count=count))
        except MirrorError as error:
            self.failed.emit(error.problem)
            return
        finally:
            self._reading = False
        if wanted == self.search_text:
            self._is_whole = bool(wanted) or len(rows) < count
            self._become(rows)
            self.refreshed.emit()
        if self._again:
            self._again = False
            self.refresh()

    def _become(self, rows: Sequence[Row]) -> None:
        """Turn the rows into these, telling the view of each step."""
        kept = {row.chat.id for row in rows}
        nowhere = QModelIndex()
        for at in range(len(self._rows) - 1, -1, -1):
            if self._rows[at].chat.id not in kept:
                self.beginRemoveRows(nowhere, at, at)
                del self._rows[at]
                self.endRemoveRows()
        if not self._rows and rows:
            self.beginInsertRows(nowhere, 0, len(rows) - 1)
            self._rows = list(rows)
            self.endInsertRows()
            return
        for at, row in enumerate(rows):
            if at < len(self._rows) and self._rows[at].chat.id == row.chat.id:
                self._rows[at] = row
                continue
            known = self.row_of(row.chat.id)
            if known < 0:
                last = at if at < len(self._rows) else len(rows) - 1
                self.beginInsertRows(nowhere, at, last)
                self._rows[at:at] = rows[at : last + 1]
                self.endInsertRows()
                if last > at:
                    break
            else:
                self.beginMoveRows(nowhere, known, known, nowhere, at)
                del self._rows[known]
                self._rows.insert(at, row)
                self.endMoveRows()
        if self._rows:
            self.dataChanged.emit(self.index(0), self.index(len(self._rows) - 1))

    def _heading(self, at: int) -> str:
        if self.search_text:
            return ""
        today = date.today()
        group = group_of(self._rows[at].chat, today)
        before = group_of(self._rows[at - 1].chat, today) if at else None
        return "" if group == before else _GROUPS[group]

    def _doing(self, row: Row) -> str:
        return _ACTIVITY.get(self._activity(row.chat.id), "writing")


def _read_rows(store: ChatStore, wanted: str, count: int) -> list[Row]:
    if wanted:
        return [Row(hit.chat, hit.title, hit.snippet, _found(hit)) for hit in store.search(wanted)]
    return [Row(chat, (Piece(chat.title, False),)) for chat in store.page(count)]


def _found(hit: Hit) -> Found | None:
    if hit.message_id is None:
        return None
    return Found(hit.message_id, tuple(dict.fromkeys(piece.text.casefold() for piece in hit.snippet if piece.found)))
