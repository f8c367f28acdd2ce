"""The bar above everything: the pair, the mode, the verdict, and what shows and hides the columns at the sides."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QSizePolicy, QWidget

from app.icons import IconButton
from app.language import tr
from app.pairs.mode_selector import ModeSelector
from app.pairs.pair_button import LEAST_WIDTH, PairButton
from app.stats.verdict_chip import VerdictChip
from app.theme import scaled
from app.widgets import set_kind

_MARGIN, _GAP = 10, 6
_CHIP_WIDTH = 150


class TopBar(QFrame):
    """One row; two where text is so large that the parts have no room beside each other.

    In a row the pair's state gives way first, then the pair's name, then the verdict; each of them can be had as a
    tooltip.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "bar")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.sidebar_toggle = IconButton("chats", tr("Show or hide the chats (Ctrl+B)"))
        self.panel_toggle = IconButton("statistics", tr("Show or hide the statistics (Ctrl+Shift+S)"))
        for toggle in (self.sidebar_toggle, self.panel_toggle):
            toggle.setCheckable(True)
        self.menu_button = IconButton("menu", tr("Menu: everything the window can do"))
        self.pair_button = PairButton()
        self.mode_selector = ModeSelector()
        self.verdict = VerdictChip()
        self._widgets = (
            *(self.sidebar_toggle, self.pair_button, self.mode_selector, self.verdict),
            *(self.panel_toggle, self.menu_button),
        )
        self._known_hints: list[tuple[bool, QSize, QSize]] = []
        middle = Qt.AlignmentFlag.AlignVCenter  # or the lowest part would squeeze the others
        first, second, last = self._inner = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        first.addWidget(self.sidebar_toggle, 0, middle)
        first.addWidget(self.pair_button, 0, middle)
        second.addWidget(self.mode_selector, 0, middle)
        second.addWidget(self.verdict, 0, middle)
        second.addStretch(1)
        for widget in (self.panel_toggle, self.menu_button):
            last.addWidget(widget, 0, middle)
        self._parts = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._parts.addLayout(first)
        self._parts.setAlignment(first, Qt.AlignmentFlag.AlignLeft)
        self._parts.addLayout(second, 1)
        row = QHBoxLayout(self)
        row.setContentsMargins(_MARGIN, _MARGIN, _MARGIN, _MARGIN)
        row.addLayout(self._parts, 1)
        row.addLayout(last)
        for layout in (first, second, last, self._parts, row):
            layout.setSpacing(_GAP)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """More or less room."""
        super().resizeEvent(event)
        self._fit()

    def event(self, event: QEvent) -> bool:
        """A part has another size: of its text, or of what it tells."""
        if event.type() == QEvent.Type.LayoutRequest and (hints := self._size_hints()) != self._known_hints:
            self._known_hints = hints  # to invalidate asks for a layout again: without a change it would never end
            for layout in self._inner:
                layout.invalidate()  # Qt tells only the outermost layout of what has changed
            self._fit()
        return super().event(event)

    def _size_hints(self) -> list[tuple[bool, QSize, QSize]]:
        """What the layouts ask of the parts."""
        return [(part.isVisibleTo(self), part.sizeHint(), part.minimumSizeHint()) for part in self._widgets]

    def _fit(self) -> None:
        """Whatever shows now: the rows do not change while an answer streams."""
        icons = 3 * (self.menu_button.sizeHint().width() + _GAP)
        parts = scaled(LEAST_WIDTH) + self.mode_selector.sizeHint().width() + scaled(_CHIP_WIDTH) + 2 * _GAP
        fits = icons + parts + 2 * _MARGIN <= self.width()
        self._parts.setDirection(QBoxLayout.Direction.LeftToRight if fits else QBoxLayout.Direction.TopToBottom)
