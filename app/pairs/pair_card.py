"""A pair as a card: what it is, what it costs, why it cannot be run, and what can be done with it."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QCheckBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.language import tr
from app.pairs import words
from app.pairs.cards import Card
from app.pairs.download_row import DownloadRow
from app.widgets import label, push_button, set_kind, set_style_property
from core.hub.progress import ENDED
from core.units import size

_WAITING = {
    "planning": tr("Asking the hub what would be downloaded …"),
    "measuring": tr("Looking at what would become free …"),
    "removing": tr("Deleting …"),
}


class PairCard(QFrame):
    """Shows a `Card` and tells what the user wants of it."""

    wanted = Signal(str)
    """`download`, `agree`, `dismiss`, `choose`, `load`, `load and check`, `delete`, `remove`; while it is downloaded
    `pause`, `resume`, `cancel`, `cancel and delete`."""

    def __init__(self, card: Card, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "pair-card")
        name = f"{card.row.name} {card.row.precision}"
        self.name = label(card.row.name, "strong", wraps=True)
        self.precision = label(card.row.precision, "muted")
        self.recommended = label(tr("recommended for this machine"), "tag")
        self.badge = label("", "tag")
        self.good_at = label(card.row.good_at, "value", wraps=True)
        self.facts = label("", "muted", wraps=True)
        self.reasons = label("", "reason", wraps=True)
        self.notes = label("", "note", wraps=True)
        self.details = label("", "muted", wraps=True)
        self.question = label("", "value", wraps=True)
        self.problem = label("", "bad", wraps=True)
        self.download = DownloadRow(name)
        self._step = card.step
        self._make_buttons(name)
        self._lay_out()
        self._connect()
        self.show_card(card)

    def _make_buttons(self, name: str) -> None:
        self.use = push_button(tr("Use this pair"), tr("Load {pair}; the chat stays").format(pair=name))
        self.get = push_button(
            tr("Download …"), tr("See what a download of {pair} needs, then decide").format(pair=name)
        )
        self.agree = push_button(tr("Download"), tr("Download {pair}").format(pair=name))
        self.load = push_button(tr("Prepare and use"), tr("Prepare and load {pair}; the chat stays").format(pair=name))
        self.check = QCheckBox(tr("Then compare some answers with plain decoding"))
        self.check.setToolTip(tr("Two short prompts in every mode; it can be skipped at any time"))
        self.remove = push_button(tr("Delete"), tr("Delete {pair} from the disk").format(pair=name))
        for button in (self.use, self.agree, self.load):
            set_kind(button, "primary")
        set_kind(self.remove, "stop")
        self.delete = push_button(
            tr("Delete …"), tr("See what deleting {pair} would free, then decide").format(pair=name)
        )
        self.dismiss = push_button(tr("Not now"), tr("Leave {pair} as it is").format(pair=name))
        self.more = push_button(tr("Memory"), tr("Show the memory that {pair} needs, as a sum").format(pair=name))
        self.more.setCheckable(True)

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.name, 1)
        for chip in (self.precision, self.recommended, self.badge):
            head.addWidget(chip)
        actions = QHBoxLayout()
        actions.setSpacing(8)
        for button in self._buttons():
            actions.addWidget(button)
        actions.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 16, 12)
        layout.setSpacing(6)
        layout.addLayout(head)
        for text in (self.good_at, self.facts, self.reasons, self.notes):
            layout.addWidget(text)
        layout.addWidget(self.download)
        layout.addWidget(self.problem)
        layout.addWidget(self.question)
        layout.addWidget(self.check)
        layout.addLayout(actions)
        layout.addWidget(self.details)

    def _buttons(self) -> tuple[QPushButton, ...]:
        return (self.use, self.get, self.agree, self.load, self.remove, self.dismiss, self.delete, self.more)

    def tab_chain(self) -> tuple[QAbstractButton, ...]:
        """What the card has in the order of the Tab key."""
        return (*self.download.buttons(), self.check, *self._buttons())

    def _connect(self) -> None:
        for button, wish in (
            (self.use, "choose"),
            (self.get, "download"),
            (self.agree, "agree"),
            (self.remove, "remove"),
            (self.delete, "delete"),
            (self.dismiss, "dismiss"),
        ):
            button.clicked.connect(lambda _checked=False, wish=wish: self.wanted.emit(wish))
        self.load.clicked.connect(lambda: self.wanted.emit("load and check" if self.check.isChecked() else "load"))
        row = self.download
        row.pause_wanted.connect(lambda: self.wanted.emit("pause"))
        row.resume_wanted.connect(lambda: self.wanted.emit("resume"))
        row.cancel_wanted.connect(lambda keep: self.wanted.emit("cancel" if keep else "cancel and delete"))
        row.dismissed.connect(lambda: self.wanted.emit("dismiss"))
        self.more.toggled.connect(self.details.setVisible)

    def show_card(self, card: Card) -> None:
        """Show what is known of the pair now."""
        focused = QApplication.focusWidget()
        has_focus = focused is not None and self.isAncestorOf(focused)
        set_style_property(self.badge, "good", card.loaded or card.row.state == "ready")
        set_style_property(self, "greyed", not card.row.compatibility.runs)
        self.recommended.setVisible(card.row.recommended)
        for text, shown in (
            (self.badge, words.badge(card)),
            (self.facts, words.facts(card)),
            (self.reasons, words.reasons(card)),
            (self.notes, words.notes(card)),
            (self.question, _question(card)),
            (self.problem, " ".join((card.problem.sentence, card.problem.hint)) if card.problem else ""),
        ):
            _show_text(text, shown)
        self.details.setText(words.memory_lines(card))
        self.details.setVisible(self.more.isChecked())
        self.download.setVisible(card.progress is not None)
        if card.progress is not None:
            self.download.show_progress(card.progress)
        self._show_buttons(card)
        if focused is not None and has_focus and (card.step != self._step or not focused.isVisible()):
            self._take_focus(card)
        self._step = card.step
        state = words.badge(card) or tr("not downloaded")
        self.setAccessibleName(f"{card.row.name} {card.row.precision}, {state}")

    def _take_focus(self, card: Card) -> None:
        """To the button that goes on from here; not to the one that deletes."""
        first = {"removal": (self.dismiss,), "load": (self.load,)}.get(card.step, ())
        for button in (*first, *self.tab_chain()):
            if button.isVisibleTo(self) and button.isEnabled():
                button.setFocus()
                return

    def _show_buttons(self, card: Card) -> None:
        runs, ready = card.row.compatibility.runs, card.row.state == "ready"
        waits = card.progress is not None and card.progress.state not in ENDED
        free = not card.step and not waits and card.progress is None
        self.use.setVisible(free and runs and ready)
        self.use.setEnabled(not card.loaded)
        self.use.setText(tr("Loaded") if card.loaded else tr("Use this pair") if card.fits else tr("Load anyway"))
        self.get.setVisible(free and runs and not ready)
        here = card.row.state != "not downloaded" or not card.row.download_bytes
        whole = size(card.row.download_bytes)
        self.get.setText(tr("Download …") if here else tr("Download {size} …").format(size=whole))
        self.delete.setVisible(free and card.removable and not card.loaded)
        self.agree.setVisible(card.step == "consent")
        to_fetch = size(sum(plan.bytes_to_fetch for plan in card.plans))
        self.agree.setText(tr("Download {size}").format(size=to_fetch))
        self.agree.setEnabled(_has_room(card))
        self.load.setVisible(card.step == "load")
        self.load.setText(tr("Prepare and use") if card.fits else tr("Load anyway"))
        self.check.setVisible(card.step == "load" and card.row.draft_path is not None)
        self.remove.setVisible(card.step == "removal")
        self.remove.setText(tr("Delete and free {size}").format(size=size(words.freed_bytes(card))))
        self.dismiss.setVisible(
            card.step in ("planning", "consent", "load", "measuring", "removal") or card.problem is not None
        )
        self.dismiss.setText(tr("Dismiss") if card.problem else tr("Not now"))


def _question(card: Card) -> str:
    if card.step == "consent":
        return words.consent(card)
    if card.step == "load":
        return words.load_consent(card)
    if card.step == "removal":
        return words.removal(card)
    return _WAITING.get(card.step, "")


def _has_room(card: Card) -> bool:
    return not card.plans or sum(plan.bytes_to_fetch for plan in card.plans) <= card.plans[0].bytes_free


def _show_text(widget: QLabel, text: str) -> None:
    widget.setText(text)
    widget.setVisible(bool(text))
