"""What can be done with a message: flip through its versions, edit, regenerate, continue, copy.

Widgets of messages hold a bar; the window connects `MessageBars` once and is told which message is meant.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.chat.copy_button import CopyButton
from app.icons import IconButton
from app.language import tr
from app.widgets import label


@dataclass(frozen=True)
class Offer:
    """What can be done with a message now."""

    versions: tuple[int, ...] = ()
    """Ids of all versions of it, oldest first."""
    place: int = 0
    """Which of them this one is."""
    can_choose: bool = False
    can_copy: bool = False
    can_edit: bool = False
    can_regenerate: bool = False
    can_continue: bool = False


class MessageBars(QObject):
    """Makes the bars of a transcript and keeps them right."""

    version_chosen = Signal(int)
    """The id of the version to show."""
    copy_requested = Signal(int)
    edit_requested = Signal(int)
    regenerate_requested = Signal(int)
    continue_requested = Signal(int)
    figures_requested = Signal(int)
    """The figures of this answer are to be shown in full."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.offer: Callable[[int], Offer] = lambda _message_id: Offer()
        """Says what can be done with the message of an id; set by the owner."""
        self._bars: weakref.WeakSet[MessageBar] = weakref.WeakSet()

    def make(self, message_id: int) -> MessageBar:
        """The bar for a message."""
        bar = MessageBar(self, message_id)
        self._bars.add(bar)
        bar.show_offer(self.offer(message_id))
        return bar

    def refresh(self) -> None:
        """Show anew what can be done."""
        for bar in list(self._bars):
            bar.show_offer(self.offer(bar.message_id))


class MessageBar(QWidget):
    """The buttons of one message; those that do nothing now are hidden."""

    def __init__(self, bars: MessageBars, message_id: int) -> None:
        super().__init__()
        self.message_id = message_id
        self._bars = bars
        self._offer = Offer()
        self.before = IconButton("before", tr("Show the version before"))
        self.place = label("", "muted")
        self.after = IconButton("after", tr("Show the next version"))
        self.copy = CopyButton("copy", tr("Copy this message"))
        self.edit = IconButton("edit", tr("Edit this message; the version before is kept"))
        self.proceed = IconButton("continue", tr("Continue this answer"))
        self.regenerate = IconButton("regenerate", tr("Answer again; this answer is kept"))
        self.before.clicked.connect(lambda: bars.version_chosen.emit(self._offer.versions[self._offer.place - 1]))
        self.after.clicked.connect(lambda: bars.version_chosen.emit(self._offer.versions[self._offer.place + 1]))
        self.copy.clicked.connect(lambda: bars.copy_requested.emit(message_id))
        self.copy.clicked.connect(self.copy.show_copied)
        self.edit.clicked.connect(lambda: bars.edit_requested.emit(message_id))
        self.proceed.clicked.connect(lambda: bars.continue_requested.emit(message_id))
        self.regenerate.clicked.connect(lambda: bars.regenerate_requested.emit(message_id))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        for widget in (self.before, self.place, self.after, self.copy, self.edit, self.proceed, self.regenerate):
            layout.addWidget(widget)

    def ask_figures(self) -> None:
        """Have the figures of this answer shown in full."""
        self._bars.figures_requested.emit(self.message_id)

    def show_offer(self, offer: Offer) -> None:
        """Show what can be done now."""
        self._offer = offer
        several = len(offer.versions) > 1
        for widget in (self.before, self.place, self.after):
            widget.setVisible(several)
        self.place.setText(f"{offer.place + 1}/{len(offer.versions)}")
        spoken = tr("Version {place} of {versions}").format(place=offer.place + 1, versions=len(offer.versions))
        self.place.setAccessibleName(spoken)
        self.before.setEnabled(offer.can_choose and offer.place > 0)
        self.after.setEnabled(offer.can_choose and offer.place + 1 < len(offer.versions))
        self.copy.setVisible(offer.can_copy)
        self.edit.setVisible(offer.can_edit)
        self.proceed.setVisible(offer.can_continue)
        self.regenerate.setVisible(offer.can_regenerate)
