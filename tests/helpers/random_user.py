"""A user of the window who does anything at any time, and who remembers what must come of it."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QLineEdit, QMenu, QPushButton

from app.chat.message_bar import MessageBar
from app.main_window import MainWindow
from core.errors import Problem
from core.protocol import Mode

FILES = ("one\n", "two\nlines\n", "three ``` lines\n\nof text")
TITLES = ("", "Renamed", "  Two   words ", "Ünïcode 漢字 🙂", "x" * 300)
SEARCHES = ("", "", "m1", "answer", "table", "nothing like it")
MODES: tuple[Mode, ...] = ("auto", "plain", "gpu")
_MOST_CHATS, _LONGEST_CHAT = 12, 8
NOT_TRIED = (
    "Choose a pair…",  # asks the hub
    "Import chats…",  # an import would double what was sent
)


@dataclass
class Ledger:
    """What must be in the store, whatever else was done."""

    sent: list[str] = field(default_factory=list)
    """Each message that was sent; no two are equal."""
    answers: int = 0
    titles: dict[int, str] = field(default_factory=dict)
    """By chat: the last title that the user gave."""
    pinned: dict[int, bool] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)


class RandomUser:
    """Does one thing with each `act`; `done` holds the last ones, as words."""

    def __init__(self, window: MainWindow, chance: random.Random, ledger: Ledger, folder: Path) -> None:
        self.window = window
        self.chance = chance
        self.ledger = ledger
        self.done: deque[str] = deque(maxlen=40)
        self.problems: list[Problem] = []
        """What the window told of."""
        self._folder = folder
        self._paths = [folder / f"file{number}.txt" for number in range(len(FILES))]
        for path, text in zip(self._paths, FILES, strict=True):
            path.write_text(text)
        for source in (window.generation, window.chats, window.files):
            source.failed.connect(self.problems.append)
        acts: tuple[tuple[int, Callable[[], str | None]], ...] = (
            (16, self._send),
            (14, self._press_in_bar),
            (10, self._open_chat),
            (6, self._type),
            (6, self._command),
            (5, self.close_dialogs),
            (4, self._new_chat),
            (4, self._stop),
            (4, self._delete),
            (4, self._search),
            (4, self._find),
            (3, self._undo),
            (3, self._rename),
            (3, self._pin),
            (3, self._attach),
            (3, self._choose_mode),
            (2, self._export),
            (2, self._scroll),
            (1, self._resize),
        )
        self._weights, self._acts = zip(*acts, strict=True)

    def act(self) -> None:
        """One operation, then a moment for what it has started."""
        (act,) = self.chance.choices(self._acts, self._weights)
        self.done.append(act.__name__)  # before it, since it may raise
        self.done[-1] += f" {act() or ''}"
        QTest.qWait(self.chance.choice((0, 0, 0, 0, 2, 10)))

    # ------------------------------------------------------------- the open chat

    def _send(self) -> str:
        window, session = self.window, self.window.chats.current
        if len(session.path) > _LONGEST_CHAT and not window.composer.is_editing:
            return self._new_chat()
        text = f"m{len(self.ledger.sent)} by {id(self) % 97}"
        window.composer.field.setPlainText(text)
        if session.accepts_message:
            self.ledger.sent.append(text)
            self.ledger.answers += 1
            self._note_use(session.chat_id)
        QTest.keyClick(window.composer.field, Qt.Key.Key_Return)
        return text

    def _type(self) -> str:
        text = self.chance.choice(("", "unsent", "un\nsent", "more that is unsent"))
        self.window.composer.field.setPlainText(text)
        return repr(text)

    def _stop(self) -> None:
        self.window.room.stop()

    def _press_in_bar(self) -> str | None:
        """Edit, regenerate, continue, copy, or another version of any message in sight."""
        bars = [bar for bar in self.window.transcript.findChildren(MessageBar) if bar.isVisible()]
        buttons = [
            (bar, button)
            for bar in bars
            for button in bar.findChildren(QPushButton)
            if button.isVisible() and button.isEnabled()
        ]
        if not buttons:
            return None
        bar, button = self.chance.choice(buttons)
        if button is bar.regenerate:
            self._note_regenerate(bar.message_id)
        elif button is bar.proceed:
            self._note_use(self.window.chats.current.chat_id)
        button.click()
        return f"{button.accessibleName()}: {bar.message_id}"

    def _note_regenerate(self, message_id: int) -> None:
        session = self.window.chats.current
        message = session.find(message_id)
        if message is not None and session.accepts_message:
            again = message is session.path[-1] and not (message.content or message.thinking)
            self.ledger.answers += not (again and message.role == "assistant")
            self._note_use(session.chat_id)

    def _note_use(self, chat_id: int | None) -> None:
        if chat_id is not None:
            self.ledger.deleted.discard(chat_id)

    def _attach(self) -> str:
        path = self.chance.choice(self._paths)
        self.window.files.attach([path])
        return path.name

    def _choose_mode(self) -> str:
        mode = self.chance.choice(MODES)
        self.window.mode_selector.choose(mode)
        return mode

    def _scroll(self) -> str:
        bar = self.window.transcript.verticalScrollBar()
        bar.setValue(self.chance.randint(0, bar.maximum()))
        return f"{bar.value()} of {bar.maximum()}"

    def _find(self) -> str:
        bar = self.window.room.find_bar
        match self.chance.randrange(4):
            case 0:
                bar.open_bar()
                return "open"
            case 1:
                bar.field.setText(self.chance.choice(("", "m", "answer", "let")))
                return repr(bar.field.text())
            case 2:
                self.chance.choice((bar.go_to_next, bar.go_to_previous))()
                return "step"
        bar.close_bar()
        return "close"

    # ------------------------------------------------------------- any chat

    def _new_chat(self) -> str:
        self.window.new_chat.click()
        return "new"

    def _open_chat(self) -> str | None:
        model = self.window.sidebar.model
        if not model.rowCount():
            return None
        index = model.index(self.chance.randrange(model.rowCount()))
        self.window.sidebar.view.clicked.emit(index)
        return str(index.data())

    def _delete(self) -> str | None:
        if self.window.sidebar.model.rowCount() <= self.chance.randrange(_MOST_CHATS):
            return None
        chat_id = self._listed_chat()
        if chat_id is not None:
            self.ledger.deleted.add(chat_id)
            self.window.sidebar.delete()
        return str(chat_id)

    def _undo(self) -> str | None:
        undo = self.window.sidebar.undo
        if undo.isHidden():
            return None
        self.ledger.deleted.discard(undo._chat_id)
        undo.button.click()
        return str(undo._chat_id)

    def _rename(self) -> str | None:
        """Sometimes the field is left open."""
        chat_id = self._listed_chat()
        self.window.sidebar.rename()
        editors = [field for field in self.window.sidebar.view.findChildren(QLineEdit) if field.isVisible()]
        if chat_id is None or not editors or self.chance.random() < 0.3:
            return None
        title = self.chance.choice(TITLES)
        editors[0].setText(title)
        self.ledger.titles[chat_id] = title = editors[0].text()  # a long one is cut
        QTest.keyClick(editors[0], Qt.Key.Key_Return)
        return f"{chat_id}: {title}"

    def _pin(self) -> str | None:
        chat_id = self._listed_chat()
        if chat_id is not None:
            row = self.window.sidebar.model._rows[self.window.sidebar.model.row_of(chat_id)]
            self.ledger.pinned[chat_id] = not row.chat.pinned
            self.window.sidebar.pin()
        return str(chat_id)

    def _search(self) -> str:
        self.window.sidebar.search.setText(self.chance.choice(SEARCHES))
        return self.window.sidebar.search.text()

    def _export(self) -> str:
        chat_id = self.chance.choice((None, self.window.chats.current.chat_id))
        path = self._folder / self.chance.choice(("chats.json", "chat.md" if chat_id is not None else "all.json"))
        self.window.files.export(path, chat_id)
        return path.name

    def _listed_chat(self) -> int | None:
        """The open chat, where the list shows it."""
        index = self.window.sidebar._open_index()
        return self.window.chats.current.chat_id if index.isValid() else None

    # ------------------------------------------------------------- the window

    def _command(self) -> str:
        """Any command of the menu, dialogs among them. Those that write are done with what they write noted."""
        noted: dict[str, Callable[[], str | None]] = {
            "Delete chat": self._delete,
            "Pin or unpin chat": self._pin,
            "Rename chat": self._rename,
            "Regenerate": self._press_in_bar,
            "Continue": self._press_in_bar,
            **dict.fromkeys(NOT_TRIED, self.close_dialogs),
        }
        command, action = self.chance.choice(self.window.commands._actions)
        if act := noted.get(command.text):
            return f"{act()}"
        self.done[-1] += f" {command.text}"
        action.trigger()
        return ""

    def close_dialogs(self) -> str:
        self.window.mode_selector.hidePopup()
        dialogs = [each for each in QApplication.topLevelWidgets() if isinstance(each, QDialog | QMenu)]
        closed = [each for each in dialogs if each.isVisible() and each.close()]
        return ", ".join(each.windowTitle() or type(each).__name__ for each in closed)

    def _resize(self) -> str:
        self.window.resize(self.chance.randint(900, 1400), self.chance.randint(600, 900))
        return f"{self.window.width()} x {self.window.height()}"

    def put_in_order(self) -> None:
        """Leave everything that is open, for a look at what there is."""
        window = self.window
        self.close_dialogs()
        window.room.find_bar.close_bar()
        window.room.end_edit()
        for field_ in window.sidebar.view.findChildren(QLineEdit):
            QTest.keyClick(field_, Qt.Key.Key_Escape)
        window.sidebar.search.clear()

    def delete_all(self) -> None:
        """Leave an empty chat, and no other."""
        self.put_in_order()
        self.window.composer.field.clear()
        self.window.composer.attachments.set_files(())
        self.window.chats.new()
        self.window.room.find_bar.close_bar()  # it knows what was in sight
        for row in self.window.sidebar.model._rows:
            self.ledger.deleted.add(row.chat.id)
            self.window.chats.delete(row.chat.id)


def tell(users: list[RandomUser], number: int) -> None:
    """Print what was done last."""
    print(f"\noperation {number}", file=sys.stderr)
    for user in users:
        print(*user.done, sep="\n  ", file=sys.stderr)
