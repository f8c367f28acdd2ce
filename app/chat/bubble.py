"""What the user said: on the right, as wide as it needs to be."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app.chat.fitted import FittedText
from app.chat.lines import parts
from app.language import tr
from app.theme import COLUMN_WIDTH
from app.widgets import set_kind

_SHARE = 0.8
_PART_CHARS = 4000
"""Longer text is shown in several views, built one by one."""


class Bubble(QWidget):
    """A message of the user, as plain text. Its parts are built from the last one up (`build_last`)."""

    def __init__(self, text: str, message_id: int | None = None) -> None:
        super().__init__()
        self.source = text
        self.message_id = message_id
        self.views: list[FittedText] = []
        """What is built, from top to bottom."""
        self._waiting = parts(text, _PART_CHARS)
        self.setAccessibleName(tr("Your message"))
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        bubble = QFrame()
        set_kind(bubble, "bubble")
        self._natural_width = _widest(self.fontMetrics(), text) + 4
        self._inner = QVBoxLayout(bubble)
        self._inner.setContentsMargins(16, 10, 16, 10)
        self._inner.setSpacing(0)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(bubble)
        self._rows = QVBoxLayout(self)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setSpacing(2)
        self._rows.addLayout(row)
        self.build_last()

    def add_bar(self, bar: QWidget) -> None:
        """What can be done with the message, below it."""
        self._rows.addWidget(bar, 0, Qt.AlignmentFlag.AlignRight)

    @property
    def is_waiting(self) -> bool:
        """Whether parts are not built yet."""
        return bool(self._waiting)

    def build_last(self) -> None:
        """Build the last part that waits, above those that are built."""
        view = FittedText()
        view.setAccessibleName(tr("Your message"))
        view.setPlainText(self._waiting.pop())
        self.views.insert(0, view)
        self._set_width(self.width() or COLUMN_WIDTH)
        self._inner.insertWidget(0, view)
        view.show()
        self._inner.activate()
        self._rows.activate()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """As wide as the text, up to a share of the column."""
        super().resizeEvent(event)
        self._set_width(self.width())

    def _set_width(self, column_width: int) -> None:
        width = min(int(column_width * _SHARE), self._natural_width)
        for view in self.views:
            if width != view.width():
                view.setFixedWidth(width)
                view.lay_out(width)


def _widest(metrics: QFontMetrics, text: str) -> int:
    """Width of the longest line; a very long one fills the column anyway."""
    return max(metrics.horizontalAdvance(line[:500]) for line in text.split("\n")[:1000])
