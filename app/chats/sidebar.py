"""The list of chats at the left: search, new, rename, pin, delete with a way back."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListView,
    QMenu,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chats.controller import Chats
from app.chats.list_model import ChatListModel, Role
from app.chats.row_delegate import RowDelegate, chat_of
from app.language import tr
from app.theme import SIDEBAR_WIDTH
from app.widgets import ElidedLabel, label, push_button, set_kind
from core.chats import ChatSummary

_SEARCH_MS = 150
_UNDO_MS = 12_000


class Sidebar(QFrame):
    """Shows the chats and passes on what is chosen."""

    export_requested = Signal(int)
    """The chat's id."""

    def __init__(self, chats: Chats, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "sidebar")
        self.setFixedWidth(SIDEBAR_WIDTH)
        self._chats = chats
        self._marked_row = -1
        self.model = ChatListModel(chats.keeper, chats.answers.activity, self)
        self.new_chat = push_button(tr("New chat"), tr("Begin a new conversation (Ctrl+N)"))
        self.new_chat.clicked.connect(chats.new)
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Search chats"))
        self.search.setAccessibleName(tr("Search chats"))
        self.search.setToolTip(tr("Search in titles and messages (Ctrl+K)"))
        self.search.setClearButtonEnabled(True)
        for button in self.search.findChildren(QToolButton):
            button.setAccessibleName(tr("Clear the search"))
        self._search_timer = QTimer(self)
        self._search_timer.setSingleShot(True)
        self._search_timer.setInterval(_SEARCH_MS)
        self._search_timer.timeout.connect(lambda: self.model.search(self.search.text()))
        self.search.textChanged.connect(self._on_search_text)
        self.search.returnPressed.connect(self._open_first)
        self.view = _ListView()
        self.view.setModel(self.model)
        self.view.setItemDelegate(RowDelegate(self.view))
        self.view.activated.connect(self._open)
        self.view.clicked.connect(self._open)
        self.view.customContextMenuRequested.connect(self._open_menu)
        self.empty = label("", "muted", wraps=True)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.undo = UndoNotice()
        self.undo.restore_requested.connect(chats.restore)
        self._lay_out()
        self.model.refreshed.connect(self._on_refreshed)
        self.model.rename_requested.connect(chats.rename)
        self.model.failed.connect(chats.failed)
        chats.list_changed.connect(self.model.refresh)
        chats.opened.connect(self._mark_open)
        chats.state_changed.connect(self.model.show_activity)

    # ------------------------------------------------------------- what is asked

    def start_search(self) -> None:
        """Go to the search field."""
        self.search.setFocus()
        self.search.selectAll()

    def rename(self) -> None:
        """Edit the title of the open chat in the list."""
        self._rename(self._open_index())

    def pin(self) -> None:
        """Pin the open chat, or not any more."""
        index = self._open_index()
        if index.isValid():
            self._chats.pin(chat_of(index).id, not chat_of(index).pinned)

    def delete(self) -> None:
        """Delete the open chat."""
        index = self._open_index()
        if index.isValid():
            self._delete(chat_of(index))

    def step(self, by: int) -> None:
        """Open the next chat, or the one before."""
        row = self.model.row_of(self._chats.current.chat_id)
        index = self.model.index(max(row + by, 0) if row >= 0 else 0)
        if index.isValid():
            self._open(index)

    async def close_list(self) -> None:
        """Read no more."""
        self._search_timer.stop()
        self.undo.dismiss()
        await self.model.close()

    # ------------------------------------------------------------- what happens

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 12, 10, 12)
        layout.setSpacing(8)
        layout.addWidget(self.new_chat)
        layout.addWidget(self.search)
        layout.addWidget(self.view, 1)
        layout.addWidget(self.empty)
        layout.addStretch(0)
        layout.addWidget(self.undo)

    def _on_search_text(self, text: str) -> None:
        if text.strip():
            self._search_timer.start()
        else:
            self._search_timer.stop()
            self.model.search("")

    def _on_refreshed(self) -> None:
        none = self.model.rowCount() == 0
        self.view.setVisible(not none)
        self.empty.setVisible(none)
        wanted = self.model.search_text
        nothing = tr("No chat has “{text}”.").format(text=wanted)
        self.empty.setText(nothing if wanted else tr("Your chats will stand here."))
        self._mark_open()

    def _mark_open(self) -> None:
        index = self._open_index()
        if index.isValid():
            self.view.setCurrentIndex(index)
            if index.row() != self._marked_row:
                self.view.scrollTo(index)
            self._marked_row = index.row()
        else:
            self.view.clearSelection()
            self.view.setCurrentIndex(QModelIndex())

    def _open_index(self) -> QModelIndex:
        return self.model.index(self.model.row_of(self._chats.current.chat_id))

    def _open(self, index: QModelIndex) -> None:
        self._chats.open(chat_of(index).id, index.data(Role.FOUND))

    def _open_first(self) -> None:
        self._search_timer.stop()
        self.model.search(self.search.text())
        if self.model.rowCount():
            self.view.setFocus()
            self._open(self.model.index(0))

    def _rename(self, index: QModelIndex) -> None:
        if index.isValid():
            self.view.scrollTo(index)
            self.view.edit_title(index)

    def _delete(self, chat: ChatSummary) -> None:
        self._chats.delete(chat.id)
        self.undo.offer(chat.id, chat.title)

    def _open_menu(self, place: QPoint) -> None:
        index = self.view.indexAt(place)
        if index.isValid():
            self.menu_for(index).popup(self.view.viewport().mapToGlobal(place))

    def menu_for(self, index: QModelIndex) -> QMenu:
        """What can be done with a chat."""
        chat = chat_of(index)
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        _add(menu, tr("Rename")).triggered.connect(lambda: self._rename(self.model.index(self.model.row_of(chat.id))))
        _add(menu, tr("Unpin") if chat.pinned else tr("Pin")).triggered.connect(
            lambda: self._chats.pin(chat.id, not chat.pinned)
        )
        _add(menu, tr("Export…")).triggered.connect(lambda: self.export_requested.emit(chat.id))
        menu.addSeparator()
        _add(menu, tr("Delete")).triggered.connect(lambda: self._delete(chat))
        return menu


class UndoNotice(QFrame):
    """Says what was deleted, with a way back for some seconds."""

    restore_requested = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "undo")
        self._chat_id = 0
        self.text = ElidedLabel("value")
        self.button = push_button(tr("Undo"), tr("Bring the chat back"))
        self.button.clicked.connect(self._restore)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_UNDO_MS)
        self._timer.timeout.connect(self.dismiss)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(10, 6, 6, 6)
        layout.addWidget(self.text, 1)
        layout.addWidget(self.button)
        self.hide()

    def offer(self, chat_id: int, title: str) -> None:
        """This chat was deleted."""
        self._chat_id = chat_id
        self.text.set_full_text(tr("Chat deleted"))
        self.text.setToolTip(title)
        self.setAccessibleName(tr("Deleted: {title}").format(title=title or tr("New chat")))
        self._timer.start()
        self.show()

    def dismiss(self) -> None:
        """The way back is closed."""
        self._timer.stop()
        self.hide()

    def _restore(self) -> None:
        self.dismiss()
        self.restore_requested.emit(self._chat_id)


class _ListView(QListView):
    def __init__(self) -> None:
        super().__init__()
        set_kind(self, "chats")
        self.setAccessibleName(tr("Chats"))
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setResizeMode(QListView.ResizeMode.Adjust)

    def edit_title(self, index: QModelIndex) -> None:
        """Open a field for the title, unless there is one."""
        no_event = QEvent(QEvent.Type.None_)
        # `edit(index)` would warn of an open field, and `state` forgets it when another row goes.
        self.edit(index, QAbstractItemView.EditTrigger.AllEditTriggers, no_event)


def _add(menu: QMenu, text: str) -> QAction:
    return menu.addAction(text)
