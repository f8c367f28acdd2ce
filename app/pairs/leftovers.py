"""Beginnings of downloads that nobody goes on with: found, shown, deleted on request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.language import tr, trn
from app.tasks import Tasks
from app.widgets import label, push_button, set_kind
from core.errors import InternalError, MirrorError
from core.hub.leftovers import Leftover, find_leftovers, remove_leftovers
from core.units import size

_DAY_S = 86_400
_MOST_SHOWN = 20


class Leftovers(QObject):
    """Looks at the cache and deletes, off the event loop."""

    changed = Signal()
    problem_met = Signal(object)
    """`Problem`."""

    def __init__(self, cache: Callable[[], Path], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._cache = cache
        self._tasks = Tasks()
        self._in_turn = asyncio.Lock()
        self.found: tuple[Leftover, ...] = ()

    def look(self) -> None:
        """See what there is now."""
        self._tasks.start(self._carry_out(lambda: None))

    def remove(self) -> None:
        """Delete what was found, but for what somebody has gone on with since."""
        found = self.found
        self._tasks.start(self._carry_out(lambda: remove_leftovers(self._cache(), found)))

    async def close(self) -> None:
        """End what is under way."""
        await self._tasks.cancel_all()

    async def _carry_out(self, work: Callable[[], object]) -> None:
        async with self._in_turn:  # what a look saw before a deletion must not be shown after it
            try:
                await asyncio.to_thread(work)
            except MirrorError as error:
                self.problem_met.emit(error.problem)
            except OSError as error:
                sentence = tr("What downloads left behind could not be deleted.")
                problem = InternalError(sentence, tr("Check the folder's permissions."), repr(error)).problem
                self.problem_met.emit(problem)
            self.found = await asyncio.to_thread(find_leftovers, self._cache())
            self.changed.emit()


class LeftoversRow(QWidget):
    """Tells of them, and deletes them after a second click. Hidden where there are none."""

    def __init__(self, leftovers: Leftovers, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._leftovers = leftovers
        self.text = label("", "value", wraps=True)
        self.details = label("", "muted", wraps=True)
        self.details.hide()
        self.show_details = push_button(tr("Show"), tr("Show what each of them is"))
        self.show_details.setCheckable(True)
        self.delete = push_button(tr("Delete …"), tr("See what deleting unfinished downloads frees, then decide"))
        self.agree = push_button(tr("Delete"), tr("Delete unfinished downloads"))
        set_kind(self.agree, "stop")
        self.keep = push_button(tr("Keep them"), tr("Leave unfinished downloads as they are"))
        line = QHBoxLayout()
        line.setSpacing(8)
        line.addWidget(self.text, 1)
        for button in (self.show_details, self.delete, self.agree, self.keep):
            line.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 8, 16, 0)
        layout.addLayout(line)
        layout.addWidget(self.details)
        self.show_details.toggled.connect(self.details.setVisible)
        self.delete.clicked.connect(lambda: self._ask(True))
        self.keep.clicked.connect(lambda: self._ask(False))
        self.agree.clicked.connect(self._remove)
        leftovers.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        found = self._leftovers.found
        self.setVisible(bool(found))
        total = size(sum(each.bytes for each in found))
        self.agree.setText(tr("Delete and free {size}").format(size=total))
        self.details.setText("\n".join(_line(each) for each in found[:_MOST_SHOWN]))
        self._ask(False)

    def _ask(self, asking: bool) -> None:
        found = self._leftovers.found
        ours = sum(each.made_by == "Mirror SD" for each in found)
        if asking and ours:
            summary = tr(
                "Unfinished downloads: {count}, {size} in all. "
                "{ours} would go on where they stopped; deleted, they begin anew."
            )
        else:
            summary = tr("Unfinished downloads: {count}, {size} in all")
        total = size(sum(each.bytes for each in found))
        self.text.setText(summary.format(count=len(found), size=total, ours=ours))
        self.delete.setVisible(not asking)
        self.agree.setVisible(asking)
        self.keep.setVisible(asking)
        if asking:
            self.keep.setFocus()

    def _remove(self) -> None:
        self._ask(False)
        self._leftovers.remove()


def _line(leftover: Leftover) -> str:
    days = round(leftover.age_s / _DAY_S)
    age = tr("today") if days == 0 else trn("{days} day old", "{days} days old", days).format(days=days)
    program = tr("another program") if leftover.made_by == "another program" else leftover.made_by
    text = tr("{model}: {size}, by {program}, {age}")
    return text.format(model=leftover.repo, size=size(leftover.bytes), program=program, age=age)
