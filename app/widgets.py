"""Small widgets and helpers that every room of the window uses."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, SignalInstance
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)


def set_kind(widget: QWidget, kind: str) -> None:
    """Say which rules of the style sheet are for this widget."""
    widget.setProperty("kind", kind)


def set_style_property(widget: QWidget, name: str, value: object) -> None:
    """Set a property that the style sheet selects by, and dress the widget anew if it changed."""
    if widget.property(name) != value:
        widget.setProperty(name, value)
        widget.style().unpolish(widget)
        widget.style().polish(widget)
        widget.update()


def label(text: str, kind: str, wraps: bool = False) -> QLabel:
    """A label of a kind the style sheet knows."""
    result = QLabel(text)
    result.setTextFormat(Qt.TextFormat.PlainText)
    result.setWordWrap(wraps)
    set_kind(result, kind)
    return result


def push_button(text: str, description: str, clicked: SignalInstance | None = None) -> QPushButton:
    """A button whose tooltip and accessible description say more than its text."""
    result = QPushButton(text)
    result.setAutoDefault(False)  # or Return anywhere in a dialog would press it
    result.setToolTip(description)
    result.setAccessibleDescription(description)
    if clicked is not None:
        result.clicked.connect(lambda: clicked.emit())
    return result


def height_of(layout: QLayout, width: int) -> int:
    """The least height that a widget's layout needs at a width."""
    return (
        layout.totalMinimumHeightForWidth(width) if layout.hasHeightForWidth() else layout.totalMinimumSize().height()
    )


def line() -> QFrame:
    """A horizontal hairline."""
    result = QFrame()
    result.setFixedHeight(1)
    set_kind(result, "line")
    return result


def named(name: str, field: QWidget) -> QWidget:
    """A field behind its name."""
    result = QWidget()
    row = QHBoxLayout(result)
    row.setContentsMargins(0, 0, 8, 0)
    row.setSpacing(8)
    row.addWidget(label(name, "muted"))
    row.addWidget(field)
    return result


def scrolled_page(window: QWidget) -> tuple[QVBoxLayout, QVBoxLayout]:
    """Fill `window` with a page that scrolls where it is higher; returns both layouts, that of the window first."""
    page = QWidget()
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    set_kind(page, "picker")
    area.setWidget(page)
    outer, inner = QVBoxLayout(window), QVBoxLayout(page)
    outer.setContentsMargins(0, 0, 0, 0)
    outer.addWidget(area)
    return outer, inner


def number_field(least: int, most: int, first: int, name: str) -> QSpinBox:
    """A field for a whole number, which is typed; `name` is for a screen reader."""
    field = QSpinBox()
    field.setRange(least, most)
    field.setValue(first)
    field.setAccessibleName(name)
    field.setAlignment(Qt.AlignmentFlag.AlignCenter)
    field.setButtonSymbols(QSpinBox.ButtonSymbols.NoButtons)
    return field


class ElidedLabel(QLabel):
    """A one-line label that gives way: what does not fit ends in an ellipsis and shows as a tooltip."""

    def __init__(self, kind: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        set_kind(self, kind)
        self._full = ""

    def set_full_text(self, text: str) -> None:
        """The whole text."""
        self._full = text
        self.setAccessibleName(text)
        self.updateGeometry()
        self._elide()

    def full_text(self) -> str:
        """The whole text, whatever of it shows."""
        return self._full

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for the whole text."""
        hint = super().sizeHint()
        shown = self.fontMetrics().horizontalAdvance(self.text())
        return QSize(hint.width() - shown + self.fontMetrics().horizontalAdvance(self._full) + 1, hint.height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Room for a few letters."""
        return QSize(min(48, self.sizeHint().width()), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Elide anew."""
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        room = self.contentsRect().width() - 2 * self.margin()
        shown = self.fontMetrics().elidedText(self._full, Qt.TextElideMode.ElideRight, max(room, 0))
        if shown != self.text():
            self.setText(shown)
        self.setToolTip(self._full if shown != self._full else "")
