"""A row that goes on in the next line where there is no room."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget


class FlowLayout(QLayout):
    """Items from left to right, line by line, each as wide as it wants to be and as its line has room for."""

    def __init__(self, parent: QWidget | None = None, spacing: int = 8) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802
        """Add at the end."""
        self._items.append(item)

    def count(self) -> int:
        """How many items there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """The item there; None outside."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """Give the item away."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802
        """None."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """Narrower is higher."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """Of all lines."""
        return self._place(QRect(0, 0, width, 0), moves=False)

    def setGeometry(self, rect: QRect) -> None:  # noqa: N802
        """Place the items."""
        super().setGeometry(rect)
        self._place(rect, moves=True)

    def sizeHint(self) -> QSize:  # noqa: N802
        """All in one line."""
        shown = [item.sizeHint() for item in self._items if not item.isEmpty()]
        gaps = self.spacing() * max(len(shown) - 1, 0)
        return QSize(sum(size.width() for size in shown) + gaps, max((size.height() for size in shown), default=0))

    def minimumSize(self) -> QSize:  # noqa: N802
        """Room for the largest item."""
        least = QSize()
        for item in self._items:
            if not item.isEmpty():
                least = least.expandedTo(item.minimumSize())
        return least

    def _place(self, rect: QRect, moves: bool) -> int:
        """Returns the height of all lines."""
        x, y = 0, 0
        line: list[tuple[QLayoutItem, QRect]] = []
        for item in self._items:
            if item.isEmpty():
                continue
            width = min(item.sizeHint().width(), max(rect.width(), item.minimumSize().width()))
            if line and x + width > rect.width():
                y += self._end_line(line, rect.topLeft(), moves) + self.spacing()
                x, line = 0, []
            height = item.heightForWidth(width) if item.hasHeightForWidth() else item.sizeHint().height()
            line.append((item, QRect(x, y, width, height)))
            x += width + self.spacing()
        return y + self._end_line(line, rect.topLeft(), moves)

    def _end_line(self, line: list[tuple[QLayoutItem, QRect]], origin: QPoint, moves: bool) -> int:
        """Place a line's items on its middle; returns its height."""
        height = max((place.height() for _, place in line), default=0)
        if moves:
            for item, place in line:
                item.setGeometry(place.translated(origin.x(), origin.y() + (height - place.height()) // 2))
        return height
