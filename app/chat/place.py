"""Where the reader is: the line of text at the top of the view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPoint
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from app.chat.answer import AnswerView
from app.chat.bubble import Bubble
from app.chat.fitted import FittedText


@dataclass(frozen=True)
class Place:
    """A widget, and in a text a position of it, that lay at a height in the view."""

    widget: QWidget | None
    cursor: QTextCursor | None
    y: int
    """Of the position in the view's coordinates, when it was noted."""

    @classmethod
    def at_top_of(cls, viewport: QWidget, messages: Sequence[AnswerView | Bubble]) -> Place:
        """The first thing at or below the upper edge of the view."""
        for message in messages:
            if _top(message, viewport) + message.height() <= 0:
                continue
            for view in message.views:
                if view.isVisible() and _top(view, viewport) + view.height() > 0:
                    return cls._in(view, viewport)
            return cls(message, None, _top(message, viewport))
        return cls(None, None, 0)

    @classmethod
    def _in(cls, view: QWidget, viewport: QWidget) -> Place:
        if not isinstance(view, FittedText):
            return cls(view, None, _top(view, viewport))
        cursor = view.cursorForPosition(QPoint(0, max(-_top(view, viewport), 0)))
        return cls(view, cursor, _cursor_top(view, cursor, viewport))

    def moved(self, viewport: QWidget) -> int:
        """How far down it has gone in the view since."""
        if self.widget is None or not isValid(self.widget):
            return 0
        if isinstance(self.widget, FittedText) and self.cursor is not None:
            return _cursor_top(self.widget, self.cursor, viewport) - self.y
        return _top(self.widget, viewport) - self.y


def _top(widget: QWidget, viewport: QWidget) -> int:
    return widget.mapTo(viewport, QPoint(0, 0)).y()


def _cursor_top(view: FittedText, cursor: QTextCursor, viewport: QWidget) -> int:
    return _top(view, viewport) + view.cursorRect(cursor).top()
